// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/asg"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/kube/takeover"
)

// handGroupsOver checks and, where nothing is in the way, hands the node groups of a class over.
func handGroupsOver(ctx context.Context, out io.Writer, f *handoverFlags, release bool) error {
	client, _, err := connectUser(ctx, f.clusterFlags, "takeover")
	if err != nil {
		return err
	}
	clients, err := awsapi.Connect(ctx)
	if err != nil {
		return err
	}
	say := func(s string) { fmt.Fprintln(out, s) }
	t := &takeover.NodeGroups{NodePools: &takeover.NodePools{Client: client, Namespace: f.lease.Namespace, Wait: f.wait, Say: say}, Cloud: asg.Handover{Clients: clients}}
	class, err := classToHandOver(ctx, t, f)
	if err != nil {
		return err
	}
	found, err := t.Check(ctx, class, f.lease, f.others, release)
	if err != nil {
		return err
	}
	if printFindings(out, found, f) > 0 {
		return errors.New("nothing was changed")
	}
	if f.dryRun {
		fmt.Fprintln(out, "Nothing is in the way. Without --dry-run it is done.")
		return nil
	}
	if release {
		if err := t.Release(ctx, class); err != nil {
			return err
		}
		fmt.Fprintln(out, "Done. Give the groups back the tags by which Cluster Autoscaler finds them, or name them by its --nodes.")
		return nil
	}
	if err := t.TakeOver(ctx, class); err != nil {
		return err
	}
	fmt.Fprintln(out, "Done. dovetail release --class "+class+" is the way back.")
	return nil
}

// classToHandOver is the NodeGroupClass that the flags name, or the one that chooses the group that they name.
func classToHandOver(ctx context.Context, t *takeover.NodeGroups, f *handoverFlags) (string, error) {
	if f.class != "" {
		return f.class, nil
	}
	classes, err := t.Classes(ctx, f.group)
	switch {
	case err != nil:
		return "", err
	case len(classes) == 0:
		return "", fmt.Errorf("no NodeGroupClass chooses group %s. Make one: dovetail convert --from cluster-autoscaler --live --apply -- --nodes=MIN:MAX:%s", f.group, f.group)
	case len(classes) > 1:
		return "", fmt.Errorf("several NodeGroupClasses choose group %s: %s. Take it out of all but one: kubectl edit nodegroupclass NAME", f.group, strings.Join(classes, ", "))
	}
	return classes[0], nil
}
