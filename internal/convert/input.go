// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Input is the configuration of a Cluster Autoscaler.
type Input struct {
	Args       []string // its flags
	Holder     string   // where the flags were found; empty: not found
	Priorities []dovetailv1alpha1.NodeGroupPriority
	Groups     []translate.NodeGroup // nil: the groups were not described
	Notes      []string
}

// AddFlags adds a command line: flags, with or without the program name. There may be only one. holder is where it was found.
func (in *Input) AddFlags(words []string, holder string) error {
	if in.Holder != "" {
		return fmt.Errorf("there are two command lines, %s and %s; use one", in.Holder, holder)
	}
	in.Args, in.Holder = flagsOnly(words), holder
	return nil
}

// caManifest is what is looked for in a manifest: a ConfigMap's data, or containers.
type caManifest struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Data  map[string]string `json:"data"`
	Items []json.RawMessage `json:"items"`
	Spec  struct {
		Containers []corev1.Container `json:"containers"`
		Template   struct {
			Spec struct {
				Containers []corev1.Container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// AddManifests adds a stream of YAML or JSON documents: a Deployment or another workload that runs Cluster Autoscaler, and the
// ConfigMap of the expander priority. Other objects are ignored. name is where it was found.
func (in *Input) AddManifests(name string, data []byte) error {
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for i := 1; ; i++ {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s, document %d: not YAML or JSON: %w", name, i, err)
		}
		if err := in.object(name, raw); err != nil {
			return err
		}
	}
}

func (in *Input) object(name string, raw json.RawMessage) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &head) != nil {
		return nil
	}
	switch {
	case head.Kind == "ConfigMap", strings.HasSuffix(head.Kind, "List"), slices.Contains([]string{"Pod", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"}, head.Kind):
	default:
		return nil // its form is another
	}
	var m caManifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%s: %s: %w", name, head.Kind, err)
	}
	for _, item := range m.Items {
		if err := in.object(name, item); err != nil {
			return err
		}
	}
	if m.Kind == "ConfigMap" {
		if m.Metadata.Name != translate.PriorityConfigMap {
			return nil
		}
		var err error
		if in.Priorities, err = translate.ParsePriorities(m.Data[translate.PriorityKey]); err != nil {
			return fmt.Errorf("%s: ConfigMap %s: priorities: %w", name, m.Metadata.Name, err)
		}
		return nil
	}
	for _, c := range append(m.Spec.Containers, m.Spec.Template.Spec.Containers...) {
		args, ok, err := autoscalerArgs(&c)
		if err != nil {
			return fmt.Errorf("%s: %s %q: container %q: %w", name, m.Kind, m.Metadata.Name, c.Name, err)
		}
		if !ok {
			continue
		}
		if err := in.AddFlags(args, m.Kind+" "+m.Metadata.Name+" of "+name); err != nil {
			return err
		}
		for _, e := range c.Env {
			if (e.Name == "AWS_REGION" || e.Name == "AWS_DEFAULT_REGION") && e.Value != "" {
				in.Notes = append(in.Notes, "set "+e.Name+"="+e.Value+" in the controller's container, too")
			}
		}
	}
	return nil
}

// autoscalerArgs are the words of the command line of a container, if it runs Cluster Autoscaler.
func autoscalerArgs(c *corev1.Container) (args []string, ok bool, err error) {
	words := slices.Concat(c.Command, c.Args)
	if len(words) >= 3 && slices.Contains([]string{"sh", "bash", "ash"}, path.Base(words[0])) && strings.HasSuffix(words[1], "c") && strings.HasPrefix(words[1], "-") {
		if words, err = ShellWords(words[2]); err != nil {
			return nil, false, err
		}
		words = slices.DeleteFunc(words, func(w string) bool { return w == "exec" })
	}
	runs := len(c.Command) == 0 && strings.Contains(path.Base(image(c.Image)), ClusterAutoscaler)
	if len(words) > 0 && strings.HasPrefix(path.Base(words[0]), ClusterAutoscaler) {
		runs = true
	}
	if !runs {
		return nil, false, nil
	}
	for i, w := range words {
		if words[i], err = expand(w, c.Env); err != nil {
			return nil, false, err
		}
	}
	return words, true, nil
}

// image is an image's name without tag and digest.
func image(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if at := strings.LastIndexByte(ref, ':'); at > strings.LastIndexByte(ref, '/') {
		ref = ref[:at]
	}
	return ref
}

// expand puts in the values of variables, $(NAME), as the kubelet does.
func expand(word string, env []corev1.EnvVar) (string, error) {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(word, "$(")
		if !ok {
			return out.String() + word, nil
		}
		name, after, ok := strings.Cut(rest, ")")
		if !ok {
			return out.String() + word, nil
		}
		if strings.HasSuffix(before, "$") { // $$( is $( as it stands
			out.WriteString(before + "(" + name + ")")
			word = after
			continue
		}
		at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
		switch {
		case at < 0:
			return "", fmt.Errorf("%q: the container has no environment variable %s", word, name)
		case env[at].ValueFrom != nil:
			return "", fmt.Errorf("%q: environment variable %s has no literal value; set its value in the manifest", word, name)
		}
		out.WriteString(before + env[at].Value)
		word = after
	}
}

// flagsOnly leaves out the program's own name at the beginning, and what a shell would do with its output at the end.
func flagsOnly(words []string) []string {
	if len(words) > 0 && strings.HasPrefix(path.Base(words[0]), ClusterAutoscaler) {
		words = words[1:]
	}
	for i, w := range words {
		if w == "|" || w == "&&" || w == ";" || w == "&" || strings.HasPrefix(strings.TrimLeft(w, "0123456789&"), ">") {
			return words[:i]
		}
	}
	return words
}

// ShellWords splits a command line as a shell does: quotes, backslashes, comments up to the end of a line.
func ShellWords(text string) ([]string, error) {
	var out []string
	var word strings.Builder
	in, quote := false, rune(0)
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quote == '\'' && r != '\'':
			word.WriteRune(r)
		case r == '\\':
			if i++; i == len(runes) {
				return nil, errors.New("a backslash is the last character")
			}
			if runes[i] != '\n' {
				if quote == '"' && runes[i] != '"' && runes[i] != '\\' && runes[i] != '$' {
					word.WriteRune('\\')
				}
				word.WriteRune(runes[i])
				in = true
			}
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == '#' && !in:
			for i+1 < len(runes) && runes[i+1] != '\n' {
				i++
			}
		case strings.ContainsRune(" \t\r\n", r):
			if in {
				out, in = append(out, word.String()), false
				word.Reset()
			}
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if in {
		out = append(out, word.String())
	}
	return out, nil
}

// DescribedGroups parses the output of 'aws autoscaling describe-auto-scaling-groups'.
func DescribedGroups(data []byte) ([]translate.NodeGroup, error) {
	var in struct {
		AutoScalingGroups *[]struct {
			AutoScalingGroupName string
			MinSize, MaxSize     int32
			Tags                 []struct{ Key, Value string }
		}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("need JSON as 'aws autoscaling describe-auto-scaling-groups --output json' prints it: %w", err)
	}
	if in.AutoScalingGroups == nil {
		return nil, errors.New("AutoScalingGroups is missing; use the output of 'aws autoscaling describe-auto-scaling-groups --output json'")
	}
	out := []translate.NodeGroup{}
	for i, g := range *in.AutoScalingGroups {
		if g.AutoScalingGroupName == "" {
			return nil, fmt.Errorf("AutoScalingGroups[%d]: AutoScalingGroupName is missing", i)
		}
		tags := map[string]string{}
		for _, t := range g.Tags {
			tags[t.Key] = t.Value
		}
		out = append(out, translate.NodeGroup{Name: g.AutoScalingGroupName, Tags: tags})
	}
	return out, nil
}
