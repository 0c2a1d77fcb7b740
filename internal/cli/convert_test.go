// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestConvert plays testdata/convert.txt. A case's input is
//
//	group NAME TAG=VALUE…      a group that is described; TAG without what all of them begin with
//	priority N REGEXP…         of the ConfigMap of the expander priority
//	anything else              Cluster Autoscaler's command line
//
// Its output is the exit status, the objects, and what was said. The objects must be such as `dovetail plan` reads and has nothing to
// say against.
func TestConvert(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string {
		var groups []map[string]any
		var line, ranks []string
		for text := range strings.SplitSeq(input, "\n") {
			words := strings.Fields(text)
			switch {
			case len(words) == 0 || strings.HasPrefix(text, "#"):
			case words[0] == "group":
				tags := []map[string]string{}
				for _, w := range words[2:] {
					k, v, _ := strings.Cut(w, "=")
					tags = append(tags, map[string]string{"Key": "k8s.io/cluster-autoscaler/" + k, "Value": v})
				}
				groups = append(groups, map[string]any{"AutoScalingGroupName": words[1], "MinSize": 0, "MaxSize": 10, "Tags": tags})
			case words[0] == "priority":
				ranks = append(ranks, words[1]+":")
				for _, w := range words[2:] {
					ranks = append(ranks, "- "+w)
				}
			default:
				line = append(line, text)
			}
		}
		dir := t.TempDir()
		write := func(name string, v any) string {
			b, err := json.Marshal(v)
			if s, ok := v.(string); ok {
				b = []byte(s)
			}
			path := filepath.Join(dir, name)
			if err != nil || os.WriteFile(path, b, 0o644) != nil {
				t.Fatal(err)
			}
			return path
		}
		args := []string{"convert", "--from", "cluster-autoscaler", "--args", write("args", strings.Join(line, "\n"))}
		if groups != nil {
			args = append(args, "--groups", write("groups.json", map[string]any{"AutoScalingGroups": groups}))
		}
		if ranks != nil {
			args = append(args, "-f", write("priorities.json", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": translate.PriorityConfigMap}, "data": map[string]any{"priorities": strings.Join(ranks, "\n")}}))
		}
		var out, errs bytes.Buffer
		status := Main(t.Context(), args, strings.NewReader(""), &out, &errs)
		if status == 0 {
			if out.Len() == 0 {
				t.Error("nothing was converted")
			}
			m := manifests.New()
			if err := m.Read("output", out.Bytes()); err != nil {
				t.Errorf("the output is no manifest: %v", err)
			}
			s := state.New()
			m.Feed(s)
			for _, p := range s.Pools.ListPools() {
				if !p.Ready {
					t.Errorf("pool %s: %s", p.Name, p.NotReady.Message)
				}
				if c := s.Pools.FindNodeClass(p.ClassGroup, p.ClassKind, p.ClassName); c == nil {
					t.Errorf("pool %s names %s %s, which is not there", p.Name, p.ClassKind, p.ClassName)
				}
			}
			if m.Len() == 0 || len(s.Pools.ListPools()) == 0 {
				t.Error("no pool came out")
			}
		}
		return fmt.Sprintf("status %d\n%s%s", status, out.String(), strings.ReplaceAll(errs.String(), dir, ""))
	})
}
