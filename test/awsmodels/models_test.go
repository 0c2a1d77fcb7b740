// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsmodels

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
)

// model is a service model, as much of it as matters here.
type model struct {
	Metadata struct {
		APIVersion   string `json:"apiVersion"`
		Protocol     string `json:"protocol"`
		XMLNamespace string `json:"xmlNamespace"`
		TargetPrefix string `json:"targetPrefix"`
		JSONVersion  string `json:"jsonVersion"`
	} `json:"metadata"`
	Operations map[string]struct {
		HTTP struct {
			Method     string `json:"method"`
			RequestURI string `json:"requestUri"`
		} `json:"http"`
		Input  *reference `json:"input"`
		Output *reference `json:"output"`
	} `json:"operations"`
	Shapes map[string]shape `json:"shapes"`
}

type shape struct {
	Type      string               `json:"type"`
	Members   map[string]reference `json:"members"`
	Member    reference            `json:"member"`
	Value     reference            `json:"value"`
	Flattened bool                 `json:"flattened"`
	Required  []string             `json:"required"`
	Enum      []string             `json:"enum"`
	Pattern   string               `json:"pattern"`
	Min       *float64             `json:"min"`
	Max       *float64             `json:"max"`
}

type reference struct {
	Shape         string `json:"shape"`
	Location      string `json:"location"`
	LocationName  string `json:"locationName"`
	QueryName     string `json:"queryName"`
	ResultWrapper string `json:"resultWrapper"`
	Flattened     bool   `json:"flattened"`
}

func load(t *testing.T, service string) *model {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go").Output()
	if err != nil {
		t.Fatalf("find the module with the models: %v", err)
	}

	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "models", "apis", service, "*", "api-2.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no model of %s: %v", service, err)
	}
	slices.Sort(files)
	raw, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	m := &model{}
	if err := json.Unmarshal(raw, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// checker walks our types beside the model's shapes.
type checker struct {
	t       *testing.T
	m       *model
	request bool
	members int
	seen    map[string]bool
}

// TestShapes: every call that the simulated AWS serves is the model's, to the last field.
func TestShapes(t *testing.T) {
	services := awstest.Services()
	if len(services) == 0 {
		t.Fatal("no services, so there was nothing to check")
	}
	for _, s := range services {
		t.Run(s.Name, func(t *testing.T) {
			m := load(t, s.Name)
			if s.Protocol != m.Metadata.Protocol {
				t.Errorf("protocol %q, the model has %q", s.Protocol, m.Metadata.Protocol)
			}
			if s.Version != "" && s.Version != m.Metadata.APIVersion {
				t.Errorf("version %q, the model has %q", s.Version, m.Metadata.APIVersion)
			}
			if strings.TrimSuffix(s.Namespace, "/") != strings.TrimSuffix(m.Metadata.XMLNamespace, "/") {
				t.Errorf("namespace %q, the model has %q", s.Namespace, m.Metadata.XMLNamespace)
			}
			if s.Target != m.Metadata.TargetPrefix {
				t.Errorf("target %q, the model has %q", s.Target, m.Metadata.TargetPrefix)
			}
			members := 0
			for _, o := range s.Operations {
				want, ok := m.Operations[o.Name]
				if !ok {
					t.Errorf("%s: no such operation in the model", o.Name)
					continue
				}
				if o.Path != "" && (o.Path != want.HTTP.RequestURI || o.Method != want.HTTP.Method) {
					t.Errorf("%s: %s %s, the model has %s %s", o.Name, o.Method, o.Path, want.HTTP.Method, want.HTTP.RequestURI)
				}
				in := &checker{t: t, m: m, request: true, seen: map[string]bool{}}
				in.root(o.Name+" request", o.In, want.Input)
				out := &checker{t: t, m: m, seen: map[string]bool{}}
				out.root(o.Name+" answer", o.Out, want.Output)
				if want.Output != nil && m.Metadata.Protocol == "query" && want.Output.ResultWrapper != o.Name+"Result" {
					t.Errorf("%s: answered in %sResult, the model has %q", o.Name, o.Name, want.Output.ResultWrapper)
				}
				members += in.members + out.members
			}
			if members == 0 && s.Name != "sts" {
				t.Error("no members, so there was nothing to check")
			}
			t.Logf("%d calls, %d members", len(s.Operations), members)
		})
	}
}

func (c *checker) root(path string, ours reflect.Type, theirs *reference) {
	if theirs == nil {
		if ours.NumField() > 0 {
			c.t.Errorf("%s: has members, the model has none", path)
		}
		return
	}
	c.structure(path, ours, theirs.Shape)
}

// newer are members that came to a service after the last model of the first SDK. Version 2 of the SDK has them, and reads them
// in the tests of the simulated AWS.
var newer = map[string]bool{"Placement.AvailabilityZoneId": true}

func (c *checker) structure(path string, ours reflect.Type, name string) {
	if c.seen[name] {
		return
	}
	c.seen[name] = true
	s := c.m.Shapes[name]
	if s.Type != "structure" {
		c.t.Errorf("%s: a struct, the model's %s is a %s", path, name, s.Type)
		return
	}
	for i := range ours.NumField() {
		f := ours.Field(i)
		at := path + "." + f.Name
		member, ref, ok := f.Name, reference{}, false
		if ref, ok = s.Members[member]; !ok {
			member = strings.ToLower(f.Name[:1]) + f.Name[1:]
			ref, ok = s.Members[member]
		}
		if !ok && newer[name+"."+f.Name] {
			continue
		}
		if !ok {
			c.t.Errorf("%s: %s has no such member", at, name)
			continue
		}
		c.members++
		key, want := c.wire(member, ref)
		have, _, _ := strings.Cut(f.Tag.Get(key), ",")
		if have != want {
			c.t.Errorf("%s: tag %s is %q, on the wire it is %q", at, key, have, want)
		}
		c.value(at, f.Type, ref.Shape)
	}
}

// wire is the tag that a member's field has, and the name in it.
func (c *checker) wire(member string, ref reference) (tag, name string) {
	s := c.m.Shapes[ref.Shape]
	item := s.Member.LocationName
	list := s.Type == "list" && !s.Flattened && !ref.Flattened
	name = member
	if ref.LocationName != "" {
		name = ref.LocationName
	}
	switch c.m.Metadata.Protocol {
	case "ec2":
		if c.request {
			if ref.QueryName != "" {
				return "in", ref.QueryName
			}
			return "in", strings.ToUpper(name[:1]) + name[1:]
		}
		if list {
			if item == "" {
				item = "member"
			}
			name += ">" + item
		}
		return "xml", name
	case "query":
		if item == "" {
			item = "member"
		}
		switch {
		case c.request && list:
			return "in", name + "." + item
		case c.request:
			return "in", name
		case list:
			name += ">" + item
		}
		return "xml", name
	}
	if ref.Location == "uri" {
		return "uri", name
	}
	if ref.Location == "querystring" {
		return "query", name
	}
	return "json", name
}

// value checks a member's type.
func (c *checker) value(path string, ours reflect.Type, name string) {
	s := c.m.Shapes[name]
	if ours.Kind() == reflect.Pointer {
		ours = ours.Elem()
	}
	wrong := func() { c.t.Errorf("%s: a %s, the model's %s is a %s", path, ours, name, s.Type) }
	kind := func(k reflect.Kind) {
		if ours.Kind() != k {
			wrong()
		}
	}
	switch s.Type {
	case "structure":
		if ours.Kind() != reflect.Struct {
			wrong()
			return
		}
		c.structure(path, ours, name)
	case "list":
		if ours.Kind() != reflect.Slice {
			wrong()
			return
		}
		c.value(path+"[]", ours.Elem(), s.Member.Shape)
	case "map":
		if ours.Kind() != reflect.Map {
			wrong()
			return
		}
		c.value(path+"[]", ours.Elem(), s.Value.Shape)
	case "string", "character":
		kind(reflect.String)
	case "boolean":
		kind(reflect.Bool)
	case "integer", "long":
		if c.request && c.m.Metadata.Protocol == "rest-json" && ours.Kind() == reflect.String {
			return // of a query string, as it stands there
		}
		kind(reflect.Int64)
	case "double", "float":
		kind(reflect.Float64)
	case "timestamp":
		if !ours.ConvertibleTo(reflect.TypeFor[time.Time]()) {
			wrong()
		}
	default:
		wrong()
	}
}
