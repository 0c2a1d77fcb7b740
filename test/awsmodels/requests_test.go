// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsmodels

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// goldenRequests are what TestGroupRequests of internal/cloud/aws keeps.
const goldenRequests = "../../internal/cloud/aws/testdata/grouprequests.golden"

// TestGoldenRequests: each request that Auto Scaling and EKS are sent is one of their model's operations, with members
// that it has, none missing that it requires, and values that it allows.
func TestGoldenRequests(t *testing.T) {
	raw, err := os.ReadFile(goldenRequests)
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]*model{"autoscaling": load(t, "autoscaling"), "eks": load(t, "eks")}
	checked := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		service, rest, _ := strings.Cut(line, " ")
		m := models[service]
		if m == nil {
			t.Fatalf("%s: no service of this name", line)
		}
		operation, wrong := m.request(rest)
		if len(wrong) > 0 {
			t.Errorf("%s\n\t%s", line, strings.Join(wrong, "\n\t"))
		}
		checked[service+":"+operation]++
	}
	for _, want := range []string{"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeInstanceRefreshes", "autoscaling:DescribeScalingActivities", "autoscaling:SetDesiredCapacity",
		"autoscaling:SetInstanceProtection", "autoscaling:TerminateInstanceInAutoScalingGroup", "eks:DescribeNodegroup"} {
		if checked[want] == 0 {
			t.Errorf("no request %s, so it was not checked", want)
		}
	}
	t.Logf("%v", checked)
	// What the model forbids is seen.
	for line, want := range map[string]string{
		"Action=SetDesiredCapacity Version=2011-01-01 AutoScalingGroupName=web":                                                             "DesiredCapacity: required",
		"Action=SetDesiredCapacity Version=2011-01-01 AutoScalingGroupName=web DesiredCapacity=two":                                         "DesiredCapacity: \"two\" is no integer",
		"Action=SetDesiredCapacity Version=2011-01-01 AutoScalingGroupName=web DesiredCapacity=2 HonourCooldown=false":                      "HonourCooldown: no such member",
		"Action=SetDesiredCapacity Version=2011-01-01 AutoScalingGroupName=" + strings.Repeat("w", 256) + " DesiredCapacity=2":              "AutoScalingGroupName: longer than 255",
		"Action=SetInstanceProtection Version=2011-01-01 AutoScalingGroupName=web InstanceIds.member.2=i-1 ProtectedFromScaleIn=true":       "InstanceIds: members are not numbered from 1",
		"Action=TerminateInstanceInAutoScalingGroup Version=2011-01-01 InstanceId=i-0123456789abcdef0 ShouldDecrementDesiredCapacity=maybe": "ShouldDecrementDesiredCapacity: \"maybe\" is neither true nor false",
		"Action=SetDesired Version=2011-01-01":                                                    "no operation SetDesired",
		"Action=SetDesiredCapacity Version=2012-01-01 AutoScalingGroupName=web DesiredCapacity=2": "version \"2012-01-01\"",
	} {
		if _, wrong := models["autoscaling"].request(line); !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("%s: want %q, got %q", line, want, wrong)
		}
	}
	for line, want := range map[string]string{
		"GET /clusters/sandbox/nodegroups/web": "no operation",
		`POST /clusters/sandbox/node-groups/web/update-config {"scalingConfig":{"maxSize":0},"clientRequestToken":"t"}`:   "scalingConfig.maxSize: less than 1",
		`POST /clusters/sandbox/node-groups/web/update-config {"taints":{"addOrUpdateTaints":[{"effect":"NoSchedule"}]}}`: "effect: \"NoSchedule\" is none of",
	} {
		if _, wrong := models["eks"].request(line); !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("%s: want %q, got %q", line, want, wrong)
		}
	}
}

// request checks one request: of the query protocol the form's values as NAME=VALUE, of REST the method, the path and the
// body. It returns the operation and what the model does not allow.
func (m *model) request(text string) (operation string, wrong []string) {
	var values any
	if m.Metadata.Protocol == "query" {
		form := map[string]any{}
		for _, field := range strings.Fields(text) {
			name, value, _ := strings.Cut(field, "=")
			value, err := url.QueryUnescape(value)
			if err != nil {
				return "", []string{err.Error()}
			}
			switch name {
			case "Action":
				operation = value
			case "Version":
				if value != m.Metadata.APIVersion {
					wrong = append(wrong, fmt.Sprintf("version %q, the model has %q", value, m.Metadata.APIVersion))
				}
			default:
				put(form, strings.Split(name, "."), value)
			}
		}
		values = form
	} else {
		method, rest, _ := strings.Cut(text, " ")
		path, body, _ := strings.Cut(rest, " ")
		path, query, _ := strings.Cut(path, "?")
		in := map[string]any{}
		if body != "" {
			if err := json.Unmarshal([]byte(body), &in); err != nil {
				return "", []string{err.Error()}
			}
		}
		for name, o := range m.Operations {
			if uri, ok := matchPath(o.HTTP.RequestURI, path); ok && o.HTTP.Method == method {
				operation = name
				for k, v := range uri {
					in[k] = v
				}
			}
		}
		if query != "" {
			wrong = append(wrong, "a query, which is not checked: "+query)
		}
		values = in
	}
	o, ok := m.Operations[operation]
	if !ok || o.Input == nil {
		return operation, append(wrong, "no operation "+operation+" with an input")
	}
	return operation, append(wrong, m.check("", values, o.Input.Shape)...)
}

// put sets a value of a form by its dotted name.
func put(in map[string]any, name []string, value string) {
	if len(name) == 1 {
		in[name[0]] = value
		return
	}
	next, ok := in[name[0]].(map[string]any)
	if !ok {
		next = map[string]any{}
		in[name[0]] = next
	}
	put(next, name[1:], value)
}

// matchPath takes the values of a path out of it, by their names in a template such as /clusters/{name}.
func matchPath(template, path string) (values map[string]string, ok bool) {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	values = map[string]string{}
	for i := range want {
		if name, is := strings.CutPrefix(want[i], "{"); is && have[i] != "" {
			values[strings.TrimSuffix(name, "}")] = have[i]
		} else if want[i] != have[i] {
			return nil, false
		}
	}
	return values, true
}

// check says what of a value, at a path, a shape does not allow.
func (m *model) check(path string, value any, name string) (wrong []string) {
	s := m.Shapes[name]
	say := func(format string, args ...any) {
		wrong = append(wrong, strings.TrimPrefix(path, ".")+": "+fmt.Sprintf(format, args...))
	}
	switch s.Type {
	case "structure":
		in, ok := value.(map[string]any)
		if !ok {
			say("%v is no structure", value)
			return wrong
		}
		byName := map[string]string{}
		for member, ref := range s.Members {
			wire := member
			if ref.LocationName != "" {
				wire = ref.LocationName
			}
			byName[wire] = ref.Shape
			if _, there := in[wire]; !there && slices.Contains(s.Required, member) {
				wrong = append(wrong, strings.TrimPrefix(path+"."+wire, ".")+": required")
			}
		}
		for k, v := range in {
			if byName[k] == "" {
				wrong = append(wrong, strings.TrimPrefix(path+"."+k, ".")+": no such member of "+name)
				continue
			}
			wrong = append(wrong, m.check(path+"."+k, v, byName[k])...)
		}
	case "list":
		list, ok := value.([]any)
		if form, is := value.(map[string]any); is && m.Metadata.Protocol == "query" {
			members, _ := form["member"].(map[string]any)
			for i := range len(members) {
				if v, there := members[strconv.Itoa(i+1)]; there {
					list = append(list, v)
				}
			}
			if ok = len(form) == 1 && len(members) > 0 && len(list) == len(members); !ok {
				say("members are not numbered from 1")
				return wrong
			}
		}
		if !ok {
			say("%v is no list", value)
			return wrong
		}
		bounds(s, float64(len(list)), "fewer", "more", say)
		for _, v := range list {
			wrong = append(wrong, m.check(path+"[]", v, s.Member.Shape)...)
		}
	case "map":
		in, ok := value.(map[string]any)
		if !ok {
			say("%v is no map", value)
			return wrong
		}
		for k, v := range in {
			wrong = append(wrong, m.check(path+"["+k+"]", v, s.Value.Shape)...)
		}
	case "boolean":
		if text, is := value.(string); is && text != "true" && text != "false" {
			say("%q is neither true nor false", text)
		}
	case "integer", "long":
		n, is := value.(float64)
		if text, ok := value.(string); ok {
			i, err := strconv.ParseInt(text, 10, 64)
			n, is = float64(i), err == nil
		}
		if !is || n != float64(int64(n)) {
			say("%q is no integer", fmt.Sprint(value))
			return wrong
		}
		bounds(s, n, "less", "more", say)
	case "string":
		text, is := value.(string)
		if !is {
			say("%v is no string", value)
			return wrong
		}
		bounds(s, float64(utf8.RuneCountInString(text)), "shorter", "longer", say)
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
			say("%q is none of %v", text, s.Enum)
		}
		// Patterns with characters that Go can't write are of names alone, and hold for all but control characters.
		if p, err := regexp.Compile("^(?:" + s.Pattern + ")$"); s.Pattern != "" && err == nil && !p.MatchString(text) {
			say("%q does not match %s", text, s.Pattern)
		}
	default:
		say("a %s, which is not checked", s.Type)
	}
	return wrong
}

// bounds holds a size against a shape's minimum and maximum.
func bounds(s shape, n float64, under, over string, say func(string, ...any)) {
	if s.Min != nil && n < *s.Min {
		say("%s than %v", under, *s.Min)
	}
	if s.Max != nil && n > *s.Max {
		say("%s than %v", over, *s.Max)
	}
}
