// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// untypedCodes have no Detail yet: their reasons hold texts. The list only shrinks.
var untypedCodes = []string{
	"Adopted", "AwaitsMachine", "AwaitsPods", "BindingRefused", "BindingUnfit", "CallFailed", "ClaimRefused",
	"DaemonSets", "Deleted", "DeletionDelayed", "Demand", "Draining", "Ended", "EphemeralTaint", "EvictedLater", "EvictionPace",
	"EvictionRefused", "ExtendedResource", "ForeignHold", "HeldForBuffer", "Initializing", "InstanceGone", "InstancesUnread",
	"InsufficientCap", "Landed", "LandingOff", "LandingTimeout", "LaunchTimeout", "Launching", "Leftover", "MinimumDrain", "NoAnswer",
	"NoSurge", "NodeClassNotReady", "NodeGone", "NodeMissing", "NodeNotReady", "NotBindable", "Orphan", "PatchRefused", "PodTerminating",
	"PreemptsOthers", "Reclaimed", "Registering", "RegistrationTimeout", "ReservationEnded", "ResourceMissing", "Scheduling",
	"SeveralNodes", "SpreadTaints", "StartupTaints", "SuccessorFirst", "Terminating", "TolerateAll", "VolumeAttached",
}

// textReaders read or set the texts of such reasons, outside report and plan. The list only shrinks.
var textReaders = []string{
	"internal/controller/group_events.go", "internal/controller/record.go", "internal/decide/binding.go",
	"internal/decide/unused_causes.go", "internal/explain/pod.go", "internal/lifecycle/deletion.go",
	"internal/lifecycle/launch.go", "internal/lifecycle/node.go", "internal/lifecycle/reservation.go", "internal/verify/binding.go",
}

// textPrinters show a reason as it stands on the wire, without a look at what it says.
var textPrinters = []string{"internal/controller/record.go", "internal/decide/unused_bars.go", "internal/doctor/pools.go", "internal/explain/node.go"}

// reasonText finds a text of a reason by the names that reasons go by.
var reasonText = regexp.MustCompile(`(\b[wW]hy|\.[wW]hy|Reason|Cause|Aborting)\.(Key|Want|Have)\b`)

// TestReasonsAreTyped holds that each code of a reason has one type of Detail, that reasons of it are made with that and no
// texts, and that nobody but report and plan reads texts.
func TestReasonsAreTyped(t *testing.T) {
	codes, details := []string{}, map[string]string{}
	files := goFiles(t)
	for _, f := range files {
		if f.dir != "internal/plan" || !product(f) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Code" {
				codes = append(codes, v.Names[0].Name)
			}
			if v.Names[0].Name != "details" {
				return true
			}
			for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
				row := e.(*ast.KeyValueExpr)
				code := row.Key.(*ast.Ident).Name
				if details[code] != "" {
					t.Errorf("code %s has two rows in plan's details", code)
				}
				details[code] = row.Value.(*ast.CompositeLit).Type.(*ast.Ident).Name
			}
			return true
		})
	}
	if len(codes) < 100 || len(details) < 70 {
		t.Fatalf("%d codes and %d details were found: the test looks in the wrong place", len(codes), len(details))
	}
	for _, code := range codes {
		if listed := slices.Contains(untypedCodes, code); listed == (details[code] != "") {
			t.Errorf("code %s: in plan's details %q, in the list of codes without one: %v", code, details[code], listed)
		}
	}
	for code := range details {
		if !slices.Contains(codes, code) {
			t.Errorf("plan's details have a row for %s, which is no code", code)
		}
	}
	var readers, printers []string
	for _, f := range files {
		if !product(f) || f.dir == "internal/plan" || f.dir == "internal/report" {
			continue
		}
		if reasonText.MatchString(f.text) {
			readers = append(readers, f.path)
		}
		if strings.Contains(f.text, ".Fields()") {
			printers = append(printers, f.path)
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]ast.Expr{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if name, ok := kv.Key.(*ast.Ident); ok {
						fields[name.Name] = kv.Value
					}
				}
			}
			code, ok := fields["Code"].(*ast.SelectorExpr)
			if !ok || details[code.Sel.Name] == "" {
				return true
			}
			if x, ok := code.X.(*ast.Ident); !ok || x.Name != "plan" {
				return true
			}
			at := f.fset.Position(lit.Pos())
			if fields["Key"] != nil || fields["Want"] != nil || fields["Have"] != nil {
				t.Errorf("%s:%d: a reason of code %s is made of texts; give it a plan.%s", f.path, at.Line, code.Sel.Name, details[code.Sel.Name])
			}
			if d, ok := fields["Detail"].(*ast.CompositeLit); ok {
				if kind, ok := d.Type.(*ast.SelectorExpr); ok && kind.Sel.Name != details[code.Sel.Name] {
					t.Errorf("%s:%d: a reason of code %s has a plan.%s; it must be a plan.%s", f.path, at.Line, code.Sel.Name, kind.Sel.Name, details[code.Sel.Name])
				}
			}
			return true
		})
	}
	slices.Sort(readers)
	slices.Sort(printers)
	if !slices.Equal(readers, textReaders) {
		t.Errorf("texts of reasons are read in %q; the list says %q. It may only shrink: ask the fields of the reason's Detail", readers, textReaders)
	}
	if !slices.Equal(printers, textPrinters) {
		t.Errorf("reasons are shown as they stand on the wire in %q; the list says %q. Nothing but output may use Fields", printers, textPrinters)
	}
}
