// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"bytes"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// TestTranslate runs testdata/*.txt: cases separated by an empty line, each a comment, manifests, ----, and what they mean. Of a
// result only fields that are not zero are shown.
func TestTranslate(t *testing.T) {
	runCases(t, "../translate/testdata/*.txt", func(input string) (string, error) { return translateAll(input), nil })
}

// shownNodeTemplate is what an AWSNodeTemplate becomes. Annotation "defaults" is the controller's instance profile and the version of Kubernetes.
func shownNodeTemplate(n *awsv1alpha1.AWSNodeTemplate) string {
	defaults := translate.ProvisionerDefaults{OnAWS: true}
	defaults.InstanceProfile, defaults.KubernetesVersion, _ = strings.Cut(n.Annotations["defaults"], " ")
	class, said, err := translate.NodeTemplate(n, defaults)
	list := []any{said}
	if err == nil {
		class.OwnerReferences = nil
		list = []any{class, said}
	}
	var b strings.Builder
	for _, v := range list {
		text, err := yaml.Marshal(v)
		if err != nil {
			return "error: " + err.Error()
		}
		b.Write(bytes.ReplaceAll(text, []byte("status: {}\n"), nil))
	}
	return b.String()
}

func translateAll(input string) string {
	m := New()
	m.unchecked = true
	if err := m.Read("input", []byte(input)); err != nil {
		return "error: " + err.Error()
	}
	s := state.New()
	m.Feed(s)
	snap := s.Snapshot(time.Time{})
	names := s.Resources().Names()
	var b strings.Builder
	for _, n := range snap.Nodes {
		show(&b, "node "+n.Name, n, names)
	}
	for _, p := range snap.Pending {
		show(&b, "pod "+p.Key(), p, names)
	}
	for _, d := range snap.Daemons {
		show(&b, "daemon "+d.Namespace+"/"+d.Name, d, names)
	}
	for _, p := range snap.PDBs {
		show(&b, "pdb "+p.Namespace+"/"+p.Name, p, names)
	}
	for _, o := range m.objects {
		if n, ok := o.Object.(*awsv1alpha1.AWSNodeTemplate); ok {
			return shownNodeTemplate(n)
		}
		if p, ok := o.Object.(*karpv1alpha5.Provisioner); ok {
			var defaults translate.ProvisionerDefaults
			if text, ok := strings.CutPrefix(p.Annotations["defaults"], "on AWS "); ok { // profile, version of Kubernetes
				defaults.OnAWS = true
				defaults.InstanceProfile, defaults.KubernetesVersion, _ = strings.Cut(text, " ")
			}
			pool, class, translation := translate.Provisioner(p, defaults)
			pool.OwnerReferences, pool.Status.Conditions = nil, nil
			list := []any{pool, translation}
			if class != nil {
				class.OwnerReferences = nil
				list = []any{pool, class, translation}
			}
			for _, v := range list {
				text, err := yaml.Marshal(v)
				if err != nil {
					return "error: " + err.Error()
				}
				b.Write(bytes.ReplaceAll(text, []byte("status: {}\n"), nil))
			}
			return b.String()
		}
	}
	for _, p := range snap.Pools {
		show(&b, "pool "+p.Name, p, names)
		claim, err := (&translate.Translator{Table: s.Resources()}).ClaimObject(plan.CreateClaim{Pool: p, Requirements: p.Requirements})
		if err != nil {
			fmt.Fprintf(&b, "  written back: %v\n", err)
			continue
		}
		for _, r := range claim.Spec.Requirements {
			min := ""
			if r.MinValues != nil {
				min = fmt.Sprintf(" minValues %d", *r.MinValues)
			}
			fmt.Fprintf(&b, "  written back: %s %s %v%s\n", r.Key, r.Operator, r.Values, min)
		}
	}
	for _, c := range snap.Claims {
		show(&b, "claim "+c.Name, c, names)
	}
	for _, c := range s.Pools.ListNodeClasses() {
		show(&b, "class "+c.Name, c, names)
	}
	for _, k := range m.Skipped {
		fmt.Fprintf(&b, "skipped %s\n", k)
	}
	return b.String()
}

// show writes the fields of a struct that are not zero, a class by its key.
func show(b *strings.Builder, title string, v any, names []string) {
	b.WriteString(title + "\n")
	x := reflect.Indirect(reflect.ValueOf(v))
	for i := range x.NumField() {
		f := x.Field(i)
		name := x.Type().Field(i).Name
		if f.IsZero() || !f.CanInterface() || name == "Namespace" || name == "Name" || name == "UID" || name == "Hash" {
			continue
		}
		var text string
		switch y := f.Interface().(type) {
		case *model.Class:
			text = y.Key
		case model.Resources:
			text = y.Format(names)
		case model.Requirements:
			text = y.String()
		case *model.Requirements:
			text = "{" + y.String() + "}"
		case time.Time:
			text = y.UTC().Format(time.RFC3339)
		case []*model.Pod:
			continue
		case map[string]model.Condition:
			for _, k := range sortedKeys(y) {
				text += fmt.Sprintf("%s=%s %s %s; ", k, y[k].Status, y[k].Reason, y[k].Message)
			}
			if text == "" {
				continue
			}
		case []bool:
			for d, on := range y {
				if on {
					text += names[d] + " "
				}
			}
		default:
			text = fmt.Sprintf("%+v", y)
			if r, ok := f.Interface().(fmt.Stringer); ok {
				text = r.String()
			}
			if text == "map[]" {
				continue
			}
			if raw, ok := f.Interface().(interface{ MarshalJSON() ([]byte, error) }); ok && f.Kind() == reflect.Slice {
				if j, err := raw.MarshalJSON(); err == nil {
					text = string(j)
				}
			}
		}
		fmt.Fprintf(b, "  %s: %s\n", name, strings.TrimSpace(text))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
