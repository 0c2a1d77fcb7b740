// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// foreign are names that comments mention and no code of ours spells: fields, kinds and units of others.
var foreign = names(`AlreadyExists, AsgInstanceLaunchFailures, DefaultTolerationSeconds, EiB, EventBridge, HiGHS, InvalidID, LimitRanger, NodeMetricsList, OpenStack,
	PiB, PodTemplates, VolumeAttachments, VolumeZone, binaryData, mismatchLabelKeys, nodeAffinityPolicy, nodeMap, preemptionPolicy, vSphere, TextMarshaler, RES`)

// Identifiers that comments name, those with a capital letter inside and those behind a dot, exist: in code, in a text of it, or in
// what the list above has of others. A comment that outlives what it names leads its reader astray.
func TestCommentsNameWhatExists(t *testing.T) {
	word := regexp.MustCompile(`[A-Za-z_]\w*`)
	mixed := regexp.MustCompile(`(?:^|[^\w./-])([a-z]+(?:[A-Z][a-z0-9]+)+\w*|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\w*)(?:$|[^\w-])`)
	member := regexp.MustCompile(`(?:^|[^\w./-])([A-Za-z]\w*)\.([A-Z]\w*)(?:$|[^\w-])`)
	known := map[string]bool{}
	for _, name := range foreign {
		known[name] = true
	}
	files := goFiles(t)
	for _, f := range files {
		if f.path == "internal/archtest/comments_test.go" {
			continue // or the list above would make all of it known
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CommentGroup:
				return false
			case *ast.Ident:
				known[n.Name] = true
			case *ast.BasicLit:
				for _, w := range word.FindAllString(n.Value, -1) {
					known[w] = true
				}
			}
			return true
		})
	}
	checked, named := 0, map[string]bool{}
	for _, f := range files {
		if !strings.HasPrefix(f.dir, "internal/") || strings.HasSuffix(f.path, ".pb.go") {
			continue // elsewhere most names are of others: markers of generators, fields of Kubernetes, other tools
		}
		imported := map[string]bool{}
		for _, i := range f.ast.Imports {
			imported[path.Base(strings.Trim(i.Path.Value, `"`))] = true
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				for _, name := range word.FindAllString(c.Text, -1) {
					named[name] = true
				}
				for _, m := range mixed.FindAllStringSubmatch(c.Text, -1) {
					if checked++; !known[m[1]] {
						t.Errorf("%s: a comment names %s, which does not exist: %s", f.fset.Position(c.Pos()), m[1], c.Text)
					}
				}
				for _, m := range member.FindAllStringSubmatch(c.Text, -1) {
					if checked++; !known[m[2]] && !imported[m[1]] {
						t.Errorf("%s: a comment names %s.%s, which does not exist: %s", f.fset.Position(c.Pos()), m[1], m[2], c.Text)
					}
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d names were checked", checked)
	}
	for _, name := range foreign {
		if !named[name] {
			t.Errorf("foreign has %s, which no comment names", name)
		}
	}
}
