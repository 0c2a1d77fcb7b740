// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

var schedulerScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := schedulerv1.AddToScheme(s); err != nil {
		panic(err) // the same kinds twice: a mistake in this file
	}
	return s
}()

var strictScheduler = serializer.NewCodecFactory(schedulerScheme, serializer.EnableStrict).UniversalDeserializer()

const (
	schedulerConfigKind = "KubeSchedulerConfiguration"
	spreadPlugin        = "PodTopologySpread"
)

// ReadSchedulerConfig reads the default topology spread constraints of a kube-scheduler configuration file (its
// --config). file is the name for messages. Errors are *Error.
func ReadSchedulerConfig(file string, data []byte) (translate.SchedulerDefaults, error) {
	var docs []reader
	for _, p := range split([]byte(strings.TrimPrefix(string(data), "\xef\xbb\xbf"))) {
		more, err := p.documents(file)
		if err != nil {
			return nil, err
		}
		docs = append(docs, more...)
	}
	if len(docs) == 0 {
		return nil, &Error{File: file, Line: 1, Reason: "empty; need a " + schedulerConfigKind + " of " + schedulerv1.SchemeGroupVersion.String()}
	}
	for i := range docs {
		docs[i].file = file
	}
	if len(docs) > 1 {
		return nil, docs[1].wrong(nil, "", "need one "+schedulerConfigKind+", and no more documents")
	}
	return docs[0].schedulerConfig()
}

func (r *reader) schedulerConfig() (translate.SchedulerDefaults, error) {
	var h metav1.TypeMeta
	if json.Unmarshal(r.json, &h) != nil {
		return nil, r.wrong(nil, "", "need an object with apiVersion and kind")
	}
	switch {
	case h.Kind != schedulerConfigKind:
		return nil, r.wrong([]any{"kind"}, "", "need "+schedulerConfigKind)
	case h.APIVersion != schedulerv1.SchemeGroupVersion.String():
		return nil, r.wrong([]any{"apiVersion"}, schedulerConfigKind, "unsupported version; use "+schedulerv1.SchemeGroupVersion.String())
	}
	decode := func(b []byte) error { _, _, err := strictScheduler.Decode(b, nil, nil); return err }
	obj, _, err := strictScheduler.Decode(r.json, nil, nil)
	if err != nil {
		return nil, r.undecodable(r.json, nil, schedulerConfigKind, decode, err)
	}
	config, ok := obj.(*schedulerv1.KubeSchedulerConfiguration)
	if !ok {
		return nil, r.wrong([]any{"kind"}, "", "need "+schedulerConfigKind)
	}
	out, seen := translate.SchedulerDefaults{}, map[string]bool{}
	for i := range config.Profiles {
		p := &config.Profiles[i]
		name := corev1.DefaultSchedulerName
		if p.SchedulerName != nil {
			name = *p.SchedulerName
		}
		if seen[name] {
			return nil, r.wrong([]any{"profiles", i, "schedulerName"}, schedulerConfigKind, "an earlier profile has this name; use unique names")
		}
		seen[name] = true
		for j := range p.PluginConfig {
			if p.PluginConfig[j].Name != spreadPlugin {
				continue
			}
			list, err := r.spreadArgs(p.PluginConfig[j].Args.Raw, []any{"profiles", i, "pluginConfig", j, "args"})
			if err != nil {
				return nil, err
			}
			if len(list) > 0 {
				out[name] = list
			}
		}
	}
	return out, nil
}

// spreadArgs are the constraints that a profile's arguments of the plugin list.
func (r *reader) spreadArgs(raw []byte, path []any) ([]corev1.TopologySpreadConstraint, error) {
	at := func(more ...any) []any { return append(slices.Clip(path), more...) }
	kind := schedulerv1.SchemeGroupVersion.WithKind(spreadPlugin + "Args")
	if len(raw) == 0 {
		return nil, nil
	}
	var h metav1.TypeMeta
	if json.Unmarshal(raw, &h) != nil {
		return nil, r.wrong(path, schedulerConfigKind, "need the arguments of "+spreadPlugin)
	}
	switch { // both may be left out
	case h.Kind != "" && h.Kind != kind.Kind:
		return nil, r.wrong(at("kind"), schedulerConfigKind, "need "+kind.Kind)
	case h.APIVersion != "" && h.APIVersion != kind.GroupVersion().String():
		return nil, r.wrong(at("apiVersion"), schedulerConfigKind, "unsupported version; use "+kind.GroupVersion().String())
	}
	decode := func(b []byte) error { _, _, err := strictScheduler.Decode(b, &kind, nil); return err }
	obj, _, err := strictScheduler.Decode(raw, &kind, nil)
	if err != nil {
		return nil, r.undecodable(raw, path, schedulerConfigKind, decode, err)
	}
	args, ok := obj.(*schedulerv1.PodTopologySpreadArgs)
	if !ok {
		return nil, r.wrong(at("kind"), schedulerConfigKind, "need "+kind.Kind)
	}
	switch args.DefaultingType {
	case schedulerv1.ListDefaulting:
	case "", schedulerv1.SystemDefaulting:
		if len(args.DefaultConstraints) > 0 {
			return nil, r.wrong(at("defaultConstraints"), schedulerConfigKind, "requires defaultingType List: set it, or remove the constraints")
		}
		return nil, nil
	default:
		return nil, r.wrong(at("defaultingType"), schedulerConfigKind, "unknown; use System or List")
	}
	for i := range args.DefaultConstraints {
		x := &args.DefaultConstraints[i]
		c := &checker{}
		c.spread("", x)
		field := strings.TrimPrefix(c.field, ".")
		why := c.why
		switch {
		case why != "":
		case len(validation.IsQualifiedName(x.TopologyKey)) > 0:
			field, why = "topologyKey", "not a valid label key: "+validation.IsQualifiedName(x.TopologyKey)[0]
		case x.LabelSelector != nil:
			field, why = "labelSelector", "must not be set: it is derived from the Services, ReplicaSets, StatefulSets and ReplicationControllers that select a pod"
		case slices.ContainsFunc(args.DefaultConstraints[:i], func(y corev1.TopologySpreadConstraint) bool {
			return y.TopologyKey == x.TopologyKey && y.WhenUnsatisfiable == x.WhenUnsatisfiable
		}):
			field, why = "topologyKey", "an earlier constraint has this key and whenUnsatisfiable; remove one"
		}
		if why != "" {
			return nil, r.wrong(append(at("defaultConstraints", i), parsePath(field)...), schedulerConfigKind, why)
		}
		x.MatchLabelKeys = nil // kube-scheduler's own selector takes their place
	}
	return args.DefaultConstraints, nil
}
