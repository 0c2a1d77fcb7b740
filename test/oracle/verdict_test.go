// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package oracle

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// A case is a comment, one or more writes, and what they come to.
//
// The first write is a create, of the kind's base object with the text merged over it (null takes a field away). A write after a
// line `=> update` or `=> status` is merged over the one before it. All but the last must be accepted; the verdict is on the last:
//
//	accept               followed by `+ field: value` and `- field` for what the server added and took away
//	reject FIELD, ...    the fields objected to
//	karpenter: ...       Karpenter's verdict where it is another. The comment must then have a line `# differs: REASON`
//	karpenter at FIELD   where both reject but name another field
type testCase struct {
	file    string
	line    int
	comment string
	writes  []write
	want    string
}

type write struct {
	verb string
	text string
}

const (
	verbCreate = "create"
	verbUpdate = "update"
	verbStatus = "status"
)

// baseObjects is for each kind an object with every default spelled out, so that a case shows only the defaults it is about.
func baseObjects() map[string]string {
	return map[string]string{
		"NodePool": `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: case}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
      expireAfter: 720h
  disruption: {consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: 10%}]}
`,
		"NodeClaim": `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: case}
spec:
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  requirements: []
  expireAfter: 720h
`,
		"KWOKNodeClass": `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: case}
`,
		"EC2NodeClass": `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: case}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
`,
		"NodeOverlay": `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: case}
spec:
  requirements: []
`,
		"CapacityBuffer": `
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: case, namespace: default}
spec:
  provisioningStrategy: buffer.x-k8s.io/active-capacity
`,
		"Provisioner": `
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: case}
spec:
  providerRef: {name: default}
`,
	}
}

func caseFile(k kind) string {
	return filepath.Join("testdata", strings.ToLower(k.name)+".txt")
}

// The API server's code gives our definitions and Karpenter's the same verdicts and the same defaults, and every rule of either is
// the reason of at least one rejection.
func TestVerdicts(t *testing.T) {
	inProcessServer := func(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) server { return newInProcess(t, crd) }
	count := 0
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			count += runCases(t, k, inProcessServer, *update)
		})
	}
	if count < 60 && !t.Failed() {
		t.Errorf("%d cases, want at least 60", count)
	}
}

// runCases compares the verdicts of two servers, made for our definition and for Karpenter's, on the cases of a kind, and both with
// what the file says.
func runCases(t *testing.T, k kind, newServer func(*testing.T, *apiextensionsv1.CustomResourceDefinition) server, rewrite bool) int {
	cases := readCases(t, caseFile(k))
	ours := newServer(t, k.ourCRD(t))
	broken := map[string]bool{}
	var theirs server
	theirBroken := map[string]bool{}
	if k.theirs != nil {
		theirs = newServer(t, k.theirCRD(t))
	}
	verdicts := map[bool]int{}
	for i, c := range cases {
		got, differs := "", false
		ourVerdict, asked := play(t, k, c, ours)
		got = describe(ourVerdict, asked)
		verdicts[ourVerdict.accepted()]++
		note(broken, ourVerdict)
		if theirs != nil {
			theirVerdict, asked := play(t, k, c, theirs)
			note(theirBroken, theirVerdict)
			theirText := describe(theirVerdict, asked)
			switch {
			case theirText == got:
			case !theirVerdict.accepted() && !ourVerdict.accepted():
				got += "karpenter at " + strings.Join(theirVerdict.fields, ", ") + "\n"
			default:
				differs = true
				got += indent("karpenter: ", theirText)
			}
		}
		if differs != strings.Contains(c.comment, "# differs: ") {
			t.Errorf("%s:%d: differs from Karpenter: %v, but its comment says otherwise (a line `# differs: REASON`):\n%s", c.file, c.line, differs, got)
		}
		if got != c.want && !rewrite {
			t.Errorf("%s:%d: %s\ngot:\n%swant:\n%s(-update rewrites)", c.file, c.line, strings.TrimSpace(c.comment), got, c.want)
		}
		cases[i].want = got
	}
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Errorf("%s: %d objects accepted, %d rejected: want some of both", k.name, verdicts[true], verdicts[false])
	}
	mustCover(t, "our", k.ourCRD(t), broken)
	if theirs != nil {
		mustCover(t, "Karpenter's", k.theirCRD(t), theirBroken)
	}
	if rewrite {
		writeCases(t, caseFile(k), cases)
	}
	return len(cases)
}

// play makes the writes of a case and returns the verdict on the last, and the object that was asked for.
func play(t *testing.T, k kind, c testCase, s server) (verdict, map[string]any) {
	t.Helper()
	asked := object(t, baseObjects()[k.name])
	var stored map[string]any
	var v verdict
	for i, w := range c.writes {
		asked = merge(asked, object(t, w.text)).(map[string]any)
		switch w.verb {
		case verbCreate:
			v = s.create(t, asked)
		case verbUpdate:
			v = s.update(t, stored, asked)
		case verbStatus:
			v = s.updateStatus(t, stored, asked)
		default:
			t.Fatalf("%s:%d: unknown write %q", c.file, c.line, w.verb)
		}
		if i == len(c.writes)-1 {
			break
		}
		if !v.accepted() {
			t.Fatalf("%s:%d: write %d was rejected, but only the last may be: %v %v", c.file, c.line, i+1, v.fields, v.messages)
		}
		stored = v.stored
	}
	return v, asked
}

func note(broken map[string]bool, v verdict) {
	for _, m := range v.messages {
		broken[m] = true
	}
}

// mustCover fails for every rule that no case broke.
func mustCover(t *testing.T, whose string, crd *apiextensionsv1.CustomResourceDefinition, broken map[string]bool) {
	t.Helper()
	messages := slices.Collect(maps.Keys(broken))
	var walk func(path string, s *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			// An API server says the kind of error first.
			said := func(message string) bool { return strings.HasSuffix(message, rule.Message) }
			if !slices.ContainsFunc(messages, said) {
				t.Errorf("no case breaks %s rule at %s: %s", whose, path, rule.Message)
			}
		}
		for name := range s.Properties {
			property := s.Properties[name]
			walk(path+"."+name, &property)
		}
		if s.Items != nil {
			walk(path+"[]", s.Items.Schema)
		}
		if s.AdditionalProperties != nil {
			walk(path+"{}", s.AdditionalProperties.Schema)
		}
	}
	walk("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
}

func describe(v verdict, asked map[string]any) string {
	if !v.accepted() {
		return "reject " + strings.Join(v.fields, ", ") + "\n"
	}
	var b strings.Builder
	b.WriteString("accept\n")
	before, after := leaves(asked), leaves(v.stored)
	for _, path := range slices.Sorted(maps.Keys(union(before, after))) {
		was, had := before[path]
		is, has := after[path]
		switch {
		case had && !has:
			fmt.Fprintf(&b, "- %s\n", path)
		case has && (!had || was != is):
			fmt.Fprintf(&b, "+ %s: %s\n", path, is)
		}
	}
	return b.String()
}

// leaves is an object's values by path, less what a server says about the object itself.
func leaves(object map[string]any) map[string]string {
	all := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			for key, value := range m {
				if path == "" && key != "spec" && key != "status" {
					continue
				}
				walk(strings.TrimPrefix(path+"."+key, "."), value)
			}
			return
		}
		b, err := utiljson.Marshal(v)
		if err != nil {
			panic(err)
		}
		all[path] = string(b)
	}
	walk("", object)
	return all
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	// This package's Unmarshal makes whole numbers int64, as an API server does.
	var o map[string]any
	if err := utiljson.Unmarshal(b, &o); err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return o
}

// merge is RFC 7386.
func merge(old, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return runtime.DeepCopyJSONValue(patch)
	}
	merged := map[string]any{}
	if o, ok := old.(map[string]any); ok {
		merged = runtime.DeepCopyJSON(o)
	}
	for key, value := range p {
		if value == nil {
			delete(merged, key)
			continue
		}
		merged[key] = merge(merged[key], value)
	}
	return merged
}

func readCases(t *testing.T, file string) []testCase {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []testCase
	c := testCase{file: file, line: 1}
	in := "comment"
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for i, line := range append(lines, "") {
		switch {
		case in == "want" && line == "":
			cases = append(cases, c)
			c, in = testCase{file: file, line: i + 2}, "comment"
		case in == "want":
			c.want += line + "\n"
		case line == "----":
			if len(c.writes) == 0 {
				c.writes = append(c.writes, write{verb: verbCreate})
			}
			in = "want"
		case in == "comment" && (line == "" || strings.HasPrefix(line, "#")):
			c.comment += line + "\n"
		case strings.HasPrefix(line, "=> "):
			if len(c.writes) == 0 {
				c.writes = append(c.writes, write{verb: verbCreate})
			}
			c.writes = append(c.writes, write{verb: strings.TrimPrefix(line, "=> ")})
			in = "input"
		default:
			if len(c.writes) == 0 {
				c.writes = append(c.writes, write{verb: verbCreate})
			}
			c.writes[len(c.writes)-1].text += line + "\n"
			in = "input"
		}
	}
	if in != "comment" || len(c.writes) > 0 {
		t.Fatalf("%s: the last case has no ----", file)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	return cases
}

func writeCases(t *testing.T, file string, cases []testCase) {
	t.Helper()
	var b strings.Builder
	for i, c := range cases {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(c.comment)
		for j, w := range c.writes {
			if j > 0 {
				b.WriteString("=> " + w.verb + "\n")
			}
			b.WriteString(w.text)
		}
		b.WriteString("----\n" + c.want)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func indent(prefix, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(prefix + line)
	}
	return b.String()
}

// What is read and written back is the same, so that -update changes outputs only.
func TestCasesAreReadWhole(t *testing.T) {
	for _, k := range kinds(t) {
		cases := readCases(t, caseFile(k))
		copied := filepath.Join(t.TempDir(), "copy.txt")
		writeCases(t, copied, cases)
		again := readCases(t, copied)
		for i := range again {
			again[i].file = cases[i].file
		}
		if !reflect.DeepEqual(cases, again) {
			t.Errorf("%s: reading what was written gives other cases", caseFile(k))
		}
	}
}
