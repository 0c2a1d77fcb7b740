// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package chart

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata/rendered")

const (
	chart    = "../../charts/dovetail"
	dovetail = "../../bin/dovetail"
)

// helmBinary is the Helm that this module pins, built where it is not yet.
var helmBinary = sync.OnceValues(func() (string, error) {
	if out, err := exec.Command("go", "tool", "helm", "version").CombinedOutput(); err != nil { // builds it
		return "", fmt.Errorf("go tool helm: %w\n%s", err, out)
	}
	path, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(path)), err
})

// helm runs Helm with a home of its own.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary, err := helmBinary()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

func must(t *testing.T) func(string, error) string {
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// object is one rendered document.
type object struct {
	source string // the template it came from
	text   string
	obj    runtime.Object
}

func (o object) meta(t *testing.T) metav1.Object {
	t.Helper()
	m, ok := o.obj.(metav1.Object)
	if !ok {
		t.Fatalf("%T has no metadata", o.obj)
	}
	return m
}

// serviceMonitor is what the Prometheus operator's type has of the fields that the chart writes.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`

			Relabelings []struct {
				TargetLabel string `json:"targetLabel"`
				Replacement string `json:"replacement"`
			} `json:"relabelings"`
		} `json:"endpoints"`
	} `json:"spec"`
}

func (s *serviceMonitor) DeepCopyObject() runtime.Object { c := *s; return &c }

// decode reads rendered text strictly: a field that its type does not have, or has twice, is an error.
func decode(t *testing.T, text string) []object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, admissionv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	var out []object
	source := ""
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		for line := range strings.Lines(doc) {
			if have, ok := strings.CutPrefix(line, "# Source: dovetail/"); ok {
				source = strings.TrimSpace(have)
			}
		}
		var any map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &any); err != nil {
			t.Fatalf("%s: %v\n%s", source, err, doc)
		}
		if len(any) == 0 {
			continue
		}
		if any["kind"] == "ServiceMonitor" {
			m := &serviceMonitor{}
			if err := yaml.UnmarshalStrict([]byte(doc), m); err != nil {
				t.Fatalf("%s: %v\n%s", source, err, doc)
			}
			out = append(out, object{source, doc, m})
			continue
		}
		obj, _, err := s.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", source, err, doc)
		}
		out = append(out, object{source, doc, obj})
	}
	if len(out) == 0 {
		t.Fatal("nothing was rendered")
	}
	return out
}

func find[T runtime.Object](t *testing.T, objects []object) T {
	t.Helper()
	for _, o := range objects {
		if have, ok := o.obj.(T); ok {
			return have
		}
	}
	var none T
	t.Fatalf("no %T was rendered", none)
	return none
}

func valueSets(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values in testdata/values: %v", err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = f
	}
	return out
}

// TestRendered has Helm lint and render each set of values, decodes the objects strictly and compares all but the rights, which are those
// of TestRights, with testdata/rendered. The notes come after the objects, without the IAM policy.
func TestRendered(t *testing.T) {
	for name, file := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			must(t)(helm(t, "lint", "--strict", "--quiet", chart, "-f", file))
			text := must(t)(helm(t, "install", "dovetail", chart, "--dry-run=client", "--skip-crds", "-n", "dovetail-system", "-f", file))
			_, text, _ = strings.Cut(text, "\nMANIFEST:")
			manifest, notes, ok := strings.Cut(text, "\nNOTES:\n")
			if !ok {
				t.Fatalf("no notes in\n%s", text)
			}
			objects := decode(t, manifest)
			consistent(t, objects)
			starts(t, find[*appsv1.Deployment](t, objects), notes)
			var have strings.Builder
			for _, o := range objects {
				if o.source != "templates/rights.yaml" {
					have.WriteString("---\n" + strings.Trim(o.text, "\n") + "\n")
				}
			}
			have.WriteString("---\n# Notes\n" + strings.Trim(policy(t, notes), "\n") + "\n")
			golden := "testdata/rendered/" + name + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(have.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if have.String() != string(want) {
				t.Errorf("what is rendered is not %s; run with -update and read the difference. It is\n%s", golden, have.String())
			}
		})
	}
}

// policy checks the IAM policy in the notes, where there is one, against the chart's, and leaves it out of them.
func policy(t *testing.T, notes string) string {
	t.Helper()
	begin, end := strings.Index(notes, "\n{\n"), strings.LastIndex(notes, "\n}")
	if begin < 0 {
		return notes
	}
	type document struct {
		Statement []struct {
			Sid                                 string
			Effect, Action, Resource, Condition any
		}
	}
	var have, want document
	text := notes[begin+1 : end+2]
	if err := yaml.Unmarshal([]byte(text), &have); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(chart + "/aws-iam-policy.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(file, &want); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "${") {
		t.Errorf("the policy has something that is not filled in:\n%s", text)
	}
	if len(have.Statement) == 0 || len(have.Statement) != len(want.Statement) {
		t.Fatalf("the policy has %d statements, want %d", len(have.Statement), len(want.Statement))
	}
	for i, s := range have.Statement {
		if w := want.Statement[i]; s.Sid != w.Sid || s.Effect != w.Effect || !reflect.DeepEqual(s.Action, w.Action) {
			t.Errorf("statement %s differs from the chart's", s.Sid)
		}
	}
	return notes[:begin] + "\n{ … }" + notes[end+2:]
}

// consistent checks what one object says of another.
func consistent(t *testing.T, objects []object) {
	t.Helper()
	d, pdb, svc := find[*appsv1.Deployment](t, objects), find[*policyv1.PodDisruptionBudget](t, objects), find[*corev1.Service](t, objects)
	labels := d.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{"deployment": d.Spec.Selector.MatchLabels, "poddisruptionbudget": pdb.Spec.Selector.MatchLabels, "service": svc.Spec.Selector} {
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
		for k, v := range selector {
			if labels[k] != v {
				t.Errorf("%s selects %s=%s, the pods have %q", what, k, v, labels[k])
			}
		}
	}
	for _, o := range objects {
		if m, ok := o.obj.(*serviceMonitor); ok {
			for _, e := range m.Spec.Endpoints {
				if len(e.Relabelings) != 1 || e.Relabelings[0].TargetLabel != "job" || e.Relabelings[0].Replacement != "karpenter" {
					t.Errorf("servicemonitor relabels %+v; Karpenter's dashboards ask for job karpenter", e.Relabelings)
				}
			}
			for k, v := range m.Spec.Selector.MatchLabels {
				if svc.Labels[k] != v {
					t.Errorf("servicemonitor selects %s=%s, the service has %q", k, v, svc.Labels[k])
				}
			}
		}
	}
	ports := map[string]bool{}
	c := d.Spec.Template.Spec.Containers[0]
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for what, port := range map[string]string{"service": svc.Spec.Ports[0].TargetPort.String(), "liveness": c.LivenessProbe.HTTPGet.Port.String(), "readiness": c.ReadinessProbe.HTTPGet.Port.String()} {
		if !ports[port] {
			t.Errorf("%s: the container has no port %s", what, port)
		}
	}
	for _, term := range d.Spec.Template.Spec.TopologySpreadConstraints {
		if term.LabelSelector == nil {
			t.Error("a topology spread constraint counts no pods")
		}
	}
}

// starts has the built binary take the Deployment's flags and variables: it must come as far as its kubeconfig, which is not there, and
// warn of exactly those variables that the notes say do nothing.
func starts(t *testing.T, d *appsv1.Deployment, notes string) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	args := slices.Clone(c.Args)
	if i := slices.Index(args, "--price-file=/etc/dovetail/prices/prices.csv"); i >= 0 { // the ConfigMap's, here a file
		prices := filepath.Join(t.TempDir(), "prices.csv")
		if err := os.WriteFile(prices, []byte("type,usdPerHour\nm5.large,0.08\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args[i] = "--price-file=" + prices
	}
	cmd := exec.Command(dovetail, append(args, "--kubeconfig", filepath.Join(t.TempDir(), "none"))...)
	cmd.Env = []string{}
	for _, e := range c.Env {
		value := e.Value
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.FieldRef != nil:
			value = d.Namespace
		case e.ValueFrom.ResourceFieldRef != nil:
			q := c.Resources.Limits[corev1.ResourceMemory]
			value = fmt.Sprint(q.Value())
		}
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "read kubeconfig") {
		t.Errorf("dovetail %s with %v: %v, want it to come as far as its kubeconfig\n%s", strings.Join(cmd.Args[1:], " "), cmd.Env, err, out)
	}
	warned := strings.Count(string(out), "environment variable has no effect")
	_, said, _ := strings.Cut(notes, "These values are accepted and have no effect:\n")
	said, _, _ = strings.Cut(said, "\n\n")
	if n := strings.Count(said, "settings."); n != warned {
		t.Errorf("the notes name %d values that do nothing, the binary warns of %d:\n%s\n%s", n, warned, said, out)
	}
}

// TestRights: the rights in a release are those that `dovetail manifests` prints and that the sandbox runs with, to the field; in another
// namespace and for another ServiceAccount they are of those.
func TestRights(t *testing.T) {
	for _, x := range []struct {
		args []string
		set  string
	}{
		{nil, "surge=false"},
		{[]string{"--surge", "--priorities"}, `surge=true,nodeGroups.expander=priority\,least-waste`},
		{[]string{"--group-status"}, "nodeGroups.nodes={1:9:web}"},
		{[]string{"--landing=tolerate"}, "landing=tolerate"},
		{[]string{"--landing=off"}, "landing=off"},
	} {
		plain, err := exec.Command(dovetail, append([]string{"manifests"}, x.args...)...).Output()
		if err != nil {
			t.Fatalf("dovetail manifests: %v; build bin/dovetail", err)
		}
		want := map[string]runtime.Object{}
		for _, o := range decode(t, string(plain)) {
			m := o.meta(t)
			m.SetLabels(nil)
			want[fmt.Sprintf("%T %s", o.obj, m.GetName())] = o.obj
		}
		rendered := must(t)(helm(t, "template", "dovetail", chart, "--include-crds", "-n", "dovetail-system", "--set", "settings.clusterName=demo", "--set", x.set))
		have := map[string]runtime.Object{}
		for _, o := range decode(t, rendered) {
			m := o.meta(t)
			switch o.obj.(type) {
			case *appsv1.Deployment, *policyv1.PodDisruptionBudget, *corev1.Service:
				continue
			}
			m.SetLabels(nil)
			have[fmt.Sprintf("%T %s", o.obj, m.GetName())] = o.obj
		}
		delete(want, "*v1.Namespace dovetail-system") // Helm makes it, with --create-namespace
		for name, obj := range want {
			if have[name] == nil {
				t.Errorf("the chart has no %s", name)
			} else if !reflect.DeepEqual(obj, have[name]) {
				t.Errorf("%s: the chart's differs from that of dovetail manifests", name)
			}
		}
		for name := range have {
			if want[name] == nil {
				t.Errorf("dovetail manifests has no %s", name)
			}
		}
	}
	other := must(t)(helm(t, "template", "x", chart, "-n", "elsewhere", "--set", "settings.clusterName=demo,serviceAccount.name=karpenter,surge=true,otherAutoscalers={karpenter-leader-election,my-autoscaler},"+
		`nodeGroups.nodes={1:9:web},nodeGroups.expander=priority\,most-pods,nodeGroups.priorityNamespace=scaling,nodeGroups.statusNamespace=signals,nodeGroups.statusConfigMap=groups,nodeGroups.defaults={--scale-down-unneeded-time=5m}`))
	if i := strings.Index(other, "dovetail-system"); i >= 0 {
		t.Errorf("in another namespace, still: %.200s", other[max(0, i-100):])
	}
	if !strings.Contains(other, `resourceNames: ["karpenter-leader-election","my-autoscaler"]`) || !strings.Contains(other, "--other-autoscalers=karpenter-leader-election,my-autoscaler") {
		t.Error("another autoscaler's lease is not looked at, or may not be")
	}
	if !strings.Contains(other, "--nodes=1:9:web") || !strings.Contains(other, "--node-group-defaults=--scale-down-unneeded-time=5m --expander=priority,most-pods --namespace=scaling") {
		t.Error("the controller is not told of the node groups, or how they are scaled")
	}
	if !strings.Contains(other, "--status-config-map-name=signals/groups") || !strings.Contains(other, "resourceNames: [groups]") {
		t.Error("the controller does not write the ConfigMap that was named, or may not")
	}
	subjects := 0
	for _, o := range decode(t, other) {
		var of []rbacv1.Subject
		switch b := o.obj.(type) {
		case *rbacv1.ClusterRoleBinding:
			of = b.Subjects
		case *rbacv1.RoleBinding:
			of = b.Subjects
			if want := map[string]string{"dovetail": "elsewhere", "dovetail-priorities": "scaling", "dovetail-group-status": "signals"}[b.Name]; b.Namespace != want {
				t.Errorf("RoleBinding %s is in %s, want %s", b.Name, b.Namespace, want)
			}
		case *admissionv1.ValidatingAdmissionPolicy:
			if b.Name == "dovetail-restricted-tolerations" { // it is about whoever makes pods in certain namespaces
				continue
			}
			if e := b.Spec.MatchConditions[0].Expression; !strings.Contains(e, `"system:serviceaccount:elsewhere:karpenter"`) {
				t.Errorf("%s limits somebody else: %s", b.Name, e)
			}
			subjects++
		case *appsv1.Deployment:
			if b.Namespace != "elsewhere" || b.Spec.Template.Spec.ServiceAccountName != "karpenter" {
				t.Errorf("the deployment is in %s and runs as %s", b.Namespace, b.Spec.Template.Spec.ServiceAccountName)
			}
		}
		for _, s := range of {
			subjects++
			if b, ok := o.obj.(*rbacv1.ClusterRoleBinding); ok && b.RoleRef.Name == "dovetail-viewer" && s.Namespace == "elsewhere" && s.Name == "dovetail-viewer" {
				continue
			}
			if s.Namespace != "elsewhere" || s.Name != "karpenter" {
				t.Errorf("%T: the rights are %s/%s's", o.obj, s.Namespace, s.Name)
			}
		}
	}
	if subjects != 14 {
		t.Errorf("%d subjects and policies, want 14", subjects)
	}
}

// TestShadowMode: mode shadow has its flag, one replica, and no right that changes anything.
func TestShadowMode(t *testing.T) {
	t.Parallel()
	text := must(t)(helm(t, "install", "dovetail", chart, "--dry-run=client", "--skip-crds", "--set", "mode=shadow,surge=true,settings.clusterName=demo"))
	_, text, _ = strings.Cut(text, "\nMANIFEST:")
	manifest, _, _ := strings.Cut(text, "\nNOTES:\n")
	objects := decode(t, manifest)
	d := find[*appsv1.Deployment](t, objects)
	if args := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--mode=shadow") || *d.Spec.Replicas != 1 {
		t.Errorf("%d replicas with %q, want one with --mode=shadow", *d.Spec.Replicas, args)
	}
	rules := 0
	for _, o := range objects {
		switch obj := o.obj.(type) {
		case *rbacv1.ClusterRole:
			for _, rule := range obj.Rules {
				rules++
				for _, verb := range rule.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) {
						t.Errorf("it may %s %s", verb, rule.Resources)
					}
				}
			}
		case *rbacv1.Role:
			if obj.Name != "dovetail-viewer" { // people's, to whom it is bound
				t.Errorf("there is Role %s", obj.Name)
			}
		case *rbacv1.RoleBinding:
			t.Errorf("there is RoleBinding %s", obj.Name)
		}
	}
	if rules == 0 {
		t.Error("there are no rights at all")
	}
}

// TestLanding: each landing mode has the flag, the rights and the policies that it needs, and no others. exactLanding, which is deprecated,
// still turns landing off.
func TestLanding(t *testing.T) {
	for _, x := range []struct {
		name        string
		values      string
		flags       []string
		rights      []string // of pods, that depend on the mode
		policies    []string
		deprecation string // in the notes
	}{
		{"default", "", nil, []string{"create pods/binding", "patch pods"}, []string{"dovetail-bindings", "dovetail-own-objects", "dovetail-pod-updates", "dovetail-reserved-tolerations", "dovetail-restricted-tolerations"}, ""},
		{"bind for two schedulers", "landing: bind\nlandingSchedulers: [default-scheduler, batch]", []string{"--landing-schedulers=default-scheduler,batch"},
			[]string{"create pods/binding", "patch pods"}, []string{"dovetail-bindings", "dovetail-own-objects", "dovetail-pod-updates", "dovetail-reserved-tolerations", "dovetail-restricted-tolerations"}, ""},
		{"tolerate", "landing: tolerate", []string{"--landing=tolerate"}, []string{"patch pods"}, []string{"dovetail-own-objects", "dovetail-pod-updates", "dovetail-reserved-tolerations", "dovetail-restricted-tolerations"}, ""},
		{"reservations unprotected", "protectReservations: false", nil, []string{"create pods/binding", "patch pods"}, []string{"dovetail-bindings", "dovetail-own-objects", "dovetail-pod-updates"}, ""},
		{"off", "landing: 'off'", []string{"--landing=off"}, nil, []string{"dovetail-own-objects"}, ""},
		{"bare off", "landing: off", []string{"--landing=off"}, nil, []string{"dovetail-own-objects"}, ""}, // false, to YAML
		{"exactLanding false", "exactLanding: false", []string{"--landing=off"}, nil, []string{"dovetail-own-objects"}, "Set landing: off instead."},
		{"exactLanding false and off", "exactLanding: false\nlanding: off", []string{"--landing=off"}, nil, []string{"dovetail-own-objects"}, "Set landing: off instead."},
		{"exactLanding true and tolerate", "exactLanding: true\nlanding: tolerate", []string{"--landing=tolerate"}, []string{"patch pods"}, []string{"dovetail-own-objects", "dovetail-pod-updates", "dovetail-reserved-tolerations", "dovetail-restricted-tolerations"}, "It has no effect: remove it."},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(x.values+"\nsettings: {clusterName: demo}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			text := must(t)(helm(t, "install", "dovetail", chart, "--dry-run=client", "--skip-crds", "-f", file))
			_, text, _ = strings.Cut(text, "\nMANIFEST:")
			manifest, notes, _ := strings.Cut(text, "\nNOTES:\n")
			objects := decode(t, manifest)
			d := find[*appsv1.Deployment](t, objects)
			starts(t, d, notes)
			var flags, rights, policies, binds []string
			for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
				if strings.Contains(arg, "landing") {
					flags = append(flags, arg)
				}
			}
			roles := map[string]bool{}
			for _, o := range objects {
				if b, ok := o.obj.(*rbacv1.ClusterRoleBinding); ok {
					roles[b.RoleRef.Name] = true
				}
			}
			for _, o := range objects {
				switch obj := o.obj.(type) {
				case *rbacv1.ClusterRole:
					if !roles[obj.Name] {
						t.Errorf("ClusterRole %s is not bound", obj.Name)
					}
					for _, rule := range obj.Rules {
						for _, resource := range rule.Resources {
							for _, verb := range rule.Verbs {
								switch right := verb + " " + resource; right {
								case "get pods", "list pods", "watch pods", "delete pods", "create pods/eviction": // in every mode
								default:
									if strings.HasPrefix(resource, "pods") {
										rights = append(rights, right)
									}
								}
							}
						}
					}
				case *admissionv1.ValidatingAdmissionPolicy:
					policies = append(policies, obj.Name)
				case *admissionv1.ValidatingAdmissionPolicyBinding:
					binds = append(binds, obj.Spec.PolicyName)
				}
			}
			slices.Sort(rights)
			slices.Sort(policies)
			slices.Sort(binds)
			for what, lists := range map[string][2][]string{"flags": {flags, x.flags}, "rights": {rights, x.rights}, "policies": {policies, x.policies}, "bindings of policies": {binds, x.policies}} {
				if !slices.Equal(lists[0], lists[1]) {
					t.Errorf("%s: %q, want %q", what, lists[0], lists[1])
				}
			}
			if !strings.Contains(notes, x.deprecation) || strings.Contains(notes, "deprecated") != (x.deprecation != "") {
				t.Errorf("the notes are to say %q of exactLanding:\n%s", x.deprecation, notes)
			}
		})
	}
}

// TestSecureServing: explanations are served in the pod alone where nothing is said, outside where it is, and not at all where
// that is; then nobody gets rights for it.
func TestSecureServing(t *testing.T) {
	for set, want := range map[string]struct {
		address string // empty: there is none
		ports   []string
	}{
		"secureServing.enabled=true":  {"127.0.0.1:8443", []string{"http-metrics"}},
		"secureServing.exposed=true":  {":8443", []string{"http-metrics", "https"}},
		"secureServing.enabled=false": {"", []string{"http-metrics"}},
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			objects := decode(t, must(t)(helm(t, "template", "dovetail", chart, "--set", "settings.clusterName=demo", "--set", set)))
			address, viewers := "", 0
			for _, arg := range find[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0].Args {
				if have, ok := strings.CutPrefix(arg, "--secure-address="); ok {
					address = have
				}
			}
			var ports []string
			for _, p := range find[*corev1.Service](t, objects).Spec.Ports {
				ports = append(ports, p.Name)
			}
			for _, o := range objects {
				if name := o.meta(t).GetName(); name == "dovetail-viewer" || name == "dovetail-reviews" {
					viewers++
				}
			}
			if address != want.address || !slices.Equal(ports, want.ports) {
				t.Errorf("it is served at %q, the Service has ports %q; want %q and %q", address, ports, want.address, want.ports)
			}
			if (viewers > 0) != (want.address != "") {
				t.Errorf("%d objects are for viewers", viewers)
			}
		})
	}
}

// TestRefused: a value that can't be is refused, and the message names it.
func TestRefused(t *testing.T) {
	for set, want := range map[string]string{
		"settings.clusterName=":                 "settings.clusterName: required with cloud: aws; set the name of the EKS cluster",
		"cloud=kwok":                            "machines: required with cloud: kwok; set the URL of the simulated cloud",
		"cloud=gcp":                             "at '/cloud'",
		"settings.clusterNmae=x":                "'clusterNmae' not allowed",
		"replica=3":                             "'replica' not allowed",
		"replicas=two":                          "at '/replicas'",
		"settings.reservedENIs=-1":              "at '/settings/reservedENIs'",
		"settings.vmMemoryOverheadPercent=7.5":  "at '/settings/vmMemoryOverheadPercent'",
		"settings.batchIdleDuration=soon":       "at '/settings/batchIdleDuration'",
		"settings.preferencePolicy=Maybe":       "at '/settings/preferencePolicy'",
		"settings.featureGates.levitation=true": "'levitation' not allowed",
		"settings.featureGates.nodeRepair=on":   "at '/settings/featureGates/nodeRepair'",
		"settings.clusterCABundle=---":          "at '/settings/clusterCABundle'",
		"logLevel=loud":                         "at '/logLevel'",
		"controller.image.digest=latest":        "at '/controller/image/digest'",
		"controller.metrics.port=0":             "at '/controller/metrics/port'",
		"aws.accountID=1234":                    "at '/aws/accountID'",
		"otherAutoscalers=":                     "at '/otherAutoscalers'",
		"serviceAccount.name=":                  "at '/serviceAccount/name'",
		"landing=sometimes":                     "at '/landing'",
		"prometheusURL=prometheus:9090":         "at '/prometheusURL'",
		"cloud=externalgrpc":                    "externalgrpcSecret: required with cloud: externalgrpc; set the name of the Secret",
		"cloud=clusterapi":                      "clusterAPI.cluster: required with cloud: clusterapi; set NAMESPACE/NAME of the Cluster object",
		"clusterAPI.cluster=workload":           "at '/clusterAPI/cluster'",
		"priceConfigMap=My_Prices":              "at '/priceConfigMap'",
		"landing=true":                          "at '/landing'",
		"landingSchedulers=":                    "at '/landingSchedulers'",
		"landingSchedulers={}":                  "at '/landingSchedulers/0'",
		`landingSchedulers={a\,b}`:              "at '/landingSchedulers/0'",
		"secureServing.port=0":                  "at '/secureServing/port'",
		"secureServing.tlsSecret=Not_A_Name":    "at '/secureServing/tlsSecret'",
		"exactLanding=maybe":                    "at '/exactLanding'",
		"exactLanding=false,landing=tolerate":   "exactLanding: false conflicts with landing: tolerate; remove exactLanding, which is deprecated",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, "template", "dovetail", chart, "--set", "settings.clusterName=demo", "--set", set)
			if err == nil {
				t.Fatalf("rendered:\n%.500s", out)
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %s", err, want)
			}
		})
	}
}
