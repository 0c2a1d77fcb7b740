// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// helmValues are the chart's values for flags of dovetail controller. Other flags are values of controller.extraArgs.
var helmValues = map[string]string{
	"cloud": "cloud", "cluster-name": "settings.clusterName", "cluster-api-cluster": "clusterAPI.cluster",
	"max-nodes-total": "settings.limits.maxNodesTotal", "cores-total": "settings.limits.coresTotal", "memory-total": "settings.limits.memoryTotal",
	"log-level": "logLevel", "log-format": "logFormat", "status-config-map-name": "nodeGroups.statusConfigMap",
}

// texts are the chart's values that are strings of any form. With --set, helm makes numbers and booleans of some.
var texts = []string{"settings.clusterName", "nodeGroups.statusConfigMap"}

// isConverted reports whether helm's --set makes another type than a string of a text.
func isConverted(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil || text == "true" || text == "false" || text == "null"
}

// HelmArgs returns the helm arguments that install the chart with the flags of the controller. Values that the chart requires and
// that Cluster Autoscaler's command line does not contain are placeholders in capitals.
func (c *Conversion) HelmArgs() []string {
	values, extra := map[string]string{}, []string{}
	for _, arg := range c.Controller {
		flag, v, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		switch name := helmValues[flag]; {
		case name != "":
			values[name] = v
		case flag == "kubeconfig": // a path in Cluster Autoscaler's container; the chart uses the service account
		case flag == "management-kubeconfig":
			values["clusterAPI.managementSecret"] = "SECRET" // has what is at the path
		case flag == "metrics-address":
			values["controller.metrics.port"] = v[strings.LastIndex(v, ":")+1:]
		case flag == "write-status-configmap":
			if v == "false" {
				values["nodeGroups.statusConfigMap"] = "none"
			}
		default:
			extra = append(extra, arg)
		}
	}
	required := map[string]string{"aws": "settings.clusterName", "clusterapi": "clusterAPI.cluster"}[values["cloud"]]
	if required != "" && values[required] == "" {
		values[required] = map[string]string{"aws": "CLUSTER", "clusterapi": "NAMESPACE/NAME"}[values["cloud"]]
	}
	args := []string{"install", "dovetail", "charts/dovetail", "--namespace", "dovetail-system", "--create-namespace"}
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set := "--set"
		if slices.Contains(texts, name) && isConverted(values[name]) {
			set = "--set-string"
		}
		args = append(args, set, name+"="+escape.Replace(values[name]))
	}
	if len(extra) > 0 {
		for i := range extra {
			extra[i] = escape.Replace(extra[i])
		}
		args = append(args, "--set", "controller.extraArgs={"+strings.Join(extra, ",")+"}")
	}
	return args
}
