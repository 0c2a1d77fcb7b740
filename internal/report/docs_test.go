// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fields lists the paths of all fields of a wire type, as docs/reference/json.md writes them.
func fields(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.Slice:
		return append([]string{path + "[]"}, fields(t.Elem(), path+"[]")...)
	case reflect.Struct:
		var out []string
		for i := range t.NumField() {
			f := t.Field(i)
			p := f.Tag.Get("json")
			if path != "" {
				p = path + "." + p
			}
			if k := f.Type.Kind(); k != reflect.Slice && k != reflect.Struct {
				out = append(out, p)
			}
			out = append(out, fields(f.Type, p)...)
		}
		return out
	}
	return nil
}

// docs/reference/json.md has a row for every field of the JSON and for no other.
func TestDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, doc, ok := strings.Cut(string(data), "## plan\n")
	if !ok {
		t.Fatal("docs/reference/json.md has no section plan")
	}
	doc, _, _ = strings.Cut(doc, "### plan --compare")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(doc, -1) {
		documented = append(documented, m[1])
	}
	have := slices.DeleteFunc(fields(reflect.TypeFor[wirePlan](), ""), func(f string) bool { return strings.HasPrefix(f, "ignored[].") })
	slices.Sort(have)
	slices.Sort(documented)
	if !slices.Equal(have, documented) {
		t.Errorf("the JSON has the fields\n%s\ndocs/reference/json.md has\n%s", strings.Join(have, "\n"), strings.Join(documented, "\n"))
	}
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(doc)
	if example == nil {
		t.Fatal("docs/reference/json.md has no example")
	}
	d := json.NewDecoder(strings.NewReader(example[1]))
	d.DisallowUnknownFields()
	var strict struct {
		NodeClaims []struct {
			Static                                     bool
			NodePool, InstanceType, Zone, CapacityType string
			PricePerHour, ListPricePerHour             float64
			PriceOverlay                               string
			InstanceTypes, Pods, CapacityOverlays      []string
			Requests, Allocatable                      map[string]string
		}
		Existing []struct {
			Node string
			Pods []string
		}
		Unschedulable, Ignored []struct {
			Pod     string
			Reasons []struct{ NodePool, Code, Key, Subject, Want, Have, Message string }
		}
		Cost struct {
			NewPerHour, PremiumPerHour, LowerBoundPerHour, Gap float64
			ProvenBy                                           string
			Unpriced                                           []string
		}
		NodeOverlays []struct {
			Name, Message string
			Applied       bool
		}
		NotCreated []struct {
			Owner, Message string
			Pods           int
		}
		StaticNodesMissing []struct {
			NodePool, Message string
			Nodes, Replicas   int64
		}
		Unknown []string
		Stats   struct {
			Pods, Classes, Offerings, Tier int
			Seconds                        float64
		}
	}
	if err := d.Decode(&strict); err != nil {
		t.Errorf("the example of docs/reference/json.md: %v", err)
	}
}
