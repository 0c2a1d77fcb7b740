// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/report"
)

func headroomCommand() *cobra.Command {
	f, namespace, output := clusterFlags{}, "", ""
	c := &cobra.Command{
		Use:   "headroom",
		Short: "Show the capacity held ahead of demand, its cost, and spikes met and missed",
		Long: `Prints the status of the Headrooms in a cluster: the number of pods with held capacity, its cost, the next calendar
window, and for the last week: spikes met and missed, waiting avoided and idle capacity (pod-minutes), and cost. In mode
Recommend, the figures are estimates: nothing is launched.

'dovetail why headroom/NAMESPACE/NAME' explains one Headroom. 'dovetail plan --headroom' shows the cost of the next day.

Exit status: 0 success, 1 the cluster cannot be reached or has no Headroom CRD, 2 usage error, 130 or 143 interrupted or
terminated.`,
		Example: "  dovetail headroom\n  dovetail headroom --namespace shop -o json",
		Args:    noArgs,
		RunE: prompt(func(c *cobra.Command, _ []string, shown *progress) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			shown.at("reading headrooms")
			list, err := readHeadrooms(c.Context(), f, namespace)
			if err != nil {
				return err
			}
			if isStructured(output) {
				return report.HeadroomJSON(c.OutOrStdout(), list)
			}
			return report.HeadroomsText(c.OutOrStdout(), list, time.Now())
		}),
	}
	g := c.Flags()
	f.add(g)
	g.StringVarP(&namespace, "namespace", "n", "", "Namespace. If unset, all namespaces")
	addOutput(g, &output)
	addWatch(g)
	return c
}

// readHeadrooms reads the Headrooms of a namespace, or of all.
func readHeadrooms(ctx context.Context, f clusterFlags, namespace string) ([]report.Headroom, error) {
	cluster, _, err := connectUser(ctx, f, "headroom")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, liveLimit, fmt.Errorf("API server %s has not answered within %s", cluster.Address, liveLimit))
	defer cancel()
	return listHeadrooms(ctx, cluster, namespace)
}

// listHeadrooms lists the Headrooms of a namespace, or of all, for a report.
func listHeadrooms(ctx context.Context, cluster *client.Client, namespace string) ([]report.Headroom, error) {
	list, err := watch.ListHeadrooms(ctx, cluster, namespace)
	if err != nil {
		return nil, err
	}
	out := []report.Headroom{}
	for i := range list {
		out = append(out, headroomRow(&list[i]))
	}
	return out, nil
}

// headroomRow hands a Headroom over to report.
func headroomRow(h *dovetailv1alpha1.Headroom) report.Headroom {
	s := &h.Status
	out := report.Headroom{
		Namespace: h.Namespace, Name: h.Name, Mode: string(h.Spec.Mode), Target: targetText(&h.Spec.Target), Held: int(s.Held), DollarsPerHour: s.HeldDollarsPerHour,
		LastWeek: report.HeadroomWeek{
			Hits: int(s.LastWeek.Hits), Misses: int(s.LastWeek.Misses), SparedPodMinutes: s.LastWeek.SparedPodMinutes,
			WaitedPodMinutes: s.LastWeek.WaitedPodMinutes, IdlePodMinutes: s.LastWeek.IdlePodMinutes, Dollars: s.LastWeek.Dollars,
		},
	}
	for _, c := range s.Conditions {
		switch c.Type {
		case dovetailv1alpha1.ConditionHeadroomReady:
			out.Ready = string(c.Status)
		case dovetailv1alpha1.ConditionWithinLimits:
		default:
			continue
		}
		if c.Status == metav1.ConditionFalse && out.Problem == "" {
			out.Problem = c.Message
		}
	}
	if n := s.NextWindow; n != nil {
		out.Next = &report.HeadroomOpening{Window: n.Name, LaunchFrom: n.LaunchFrom.UTC(), Opens: n.Opens.UTC(), Closes: n.Closes.UTC()}
	}
	return out
}

// targetText names what a Headroom is for.
func targetText(t *dovetailv1alpha1.HeadroomTarget) string {
	switch {
	case t.Workload != nil:
		return strings.ToLower(t.Workload.Kind) + "/" + t.Workload.Name
	case t.PodTemplateRef != nil:
		return "podtemplate/" + t.PodTemplateRef.Name
	case t.Selector != nil:
		return metav1.FormatLabelSelector(t.Selector)
	}
	return "-"
}
