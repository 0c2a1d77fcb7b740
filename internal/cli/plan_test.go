// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestGap(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0%", "0.3%": "0.3%", "0.003": "0.3%", "1%": "1%", " 12.5 % ": "12.5%", "1": "100%", "0.0000001": "0%", "100%": "100%", "0.0001%": "0.0001%",
		"": "error", "%": "error", "-1%": "error", "a": "error", "1/3": "error", "1e3": "error", "100000%": "100000%", "1000000000%": "error",
	} {
		have := "error"
		if ppm, err := parsePPM(text); err == nil {
			have = ppmText(ppm)
		} else if !strings.Contains(err.Error(), "--max-gap") || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: the error names neither flag nor value: %v", text, err)
		}
		if have != want {
			t.Errorf("%q is %s, want %s", text, have, want)
		}
	}
}

// BenchmarkPlanProcess is the whole process, start to end: a thousand pods of two sizes and every type of the built-in catalog.
func BenchmarkPlanProcess(b *testing.B) {
	const binary = "../../bin/dovetail"
	if _, err := os.Stat(binary); err != nil {
		b.Skip("needs bin/dovetail: make build")
	}
	var input strings.Builder
	input.WriteString(`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"default"},"spec":{"template":{"spec":{
		"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"},
		"requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`)
	for name, size := range map[string][2]string{"small": {"900m", "3100Mi"}, "large": {"3500m", "28Gi"}} {
		fmt.Fprintf(&input, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q},"spec":{"replicas":500,"selector":{"matchLabels":{"app":%[1]q}},
			"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":%[2]q,"memory":%[3]q}}}]}}}}`, name, size[0], size[1])
	}
	file := filepath.Join(b.TempDir(), "basic.json")
	if err := os.WriteFile(file, []byte(input.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out, err := exec.Command(binary, "plan", "-f", file, "-o", "json").CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}
