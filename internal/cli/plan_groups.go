// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// clusterAPIFlags say which Cluster of Cluster API has the node groups.
type clusterAPIFlags struct{ cluster, management string }

// readGroups returns a provider that reads the node groups of Cluster API and changes nothing, with the prices of a list, which may be nil. The Cluster is that of the flags, or
// that of the running controller's command line. It returns nil if neither names one. Warnings are about prices.
func readGroups(ctx context.Context, cluster *client.Client, f clusterAPIFlags, s *state.State, list *catalog.PriceList, warnings io.Writer) (cloud.Provider, error) {
	name := f.cluster
	if name == "" {
		args, err := cluster.ControllerArgs(ctx)
		var none *client.NoController
		var missing *client.MissingRole
		if err != nil && !errors.As(err, &none) && !errors.As(err, &missing) {
			_, err = fmt.Fprintf(warnings, "can't read whether the controller uses node groups of Cluster API: %v; if it does, set --cluster-api-cluster\n", err)
			return nil, err
		}
		if flagOfArgs(args, "cloud") != cloudClusterAPI {
			return nil, nil
		}
		name = flagOfArgs(args, "cluster-api-cluster")
		if f.management == "" && flagOfArgs(args, "management-kubeconfig") != "" {
			_, err = fmt.Fprintln(warnings, "node groups of Cluster API are not included, because the controller uses a separate management cluster; set --management-kubeconfig to the path of its kubeconfig on this machine")
			return nil, err
		}
	}
	config, err := clusterapi.ReadConfig(name)
	if err != nil {
		return nil, exit{2, fmt.Errorf("--cluster-api-cluster: %w", err)}
	}
	management := cluster
	if f.management != "" {
		if management, err = client.Connect(ctx, f.management, 0, 0, "dovetail-plan/"+version(), client.ReadOnly); err != nil {
			return nil, exit{2, fmt.Errorf("--management-kubeconfig: %w", err)}
		}
	}
	log, err := logger(warnings, "text", "warn")
	if err != nil {
		return nil, err
	}
	prices := func() cloud.PriceTable { return nil }
	if list != nil {
		prices = func() cloud.PriceTable { return list }
	}
	return cloud.NewPriced(clusterapi.New(config, management, nodegroups.NoRecords{}, s.Resources(), cloud.Wall{}, log), prices, log), nil
}

// offerGroups returns what the node groups of a pool's class offer. If they can't be read, it marks the pool as not
// ready and returns false.
func (f *offerer) offerGroups(ctx context.Context, s *state.State, p *model.NodePool, class *state.NodeClass) ([]*model.InstanceType, bool) {
	if class == nil {
		s.Pools.SetReady(p.Name, false, classNotFound(p))
		return nil, false
	}
	types, err := f.groups.Offerings(ctx, p, providerClass(class))
	if err != nil {
		s.Pools.SetReady(p.Name, false, model.Condition{Status: "False", Reason: "NodeGroupsNotRead", Message: cmp.Or(errors.Unwrap(err), err).Error()})
		return nil, false
	}
	f.used = append(f.used, types...)
	return types, true
}
