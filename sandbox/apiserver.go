// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/watchqueue"
)

// newAPIServerCommand is kube-apiserver with its own options, validation and
// server, and one difference: watches have a longer queue (see watchqueue). The
// ready-made command leaves no place to say so.
func newAPIServerCommand() *cobra.Command {
	o := options.NewServerRunOptions()
	ctx := genericapiserver.SetupSignalContext()
	registry := o.GenericServerRunOptions.ComponentGlobalsRegistry
	command := &cobra.Command{
		Use:          plane.APIServer,
		Short:        "The Kubernetes API server",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			// Requests that the server makes to itself should not warn.
			rest.SetDefaultWarningHandler(rest.NoWarnings{})
			return registry.Set()
		},
		RunE: func(*cobra.Command, []string) error {
			verflag.PrintAndExitIfRequested()
			if err := logsapi.ValidateAndApply(o.Logs, nil); err != nil {
				return err
			}
			completed, err := o.Complete(ctx)
			if err != nil {
				return err
			}
			if errs := completed.Validate(); len(errs) > 0 {
				return utilerrors.NewAggregate(errs)
			}
			return runAPIServer(ctx, completed)
		},
	}
	flags := o.Flags()
	verflag.AddFlags(flags.FlagSet("global"))
	for _, set := range flags.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	return command
}

func runAPIServer(ctx context.Context, o options.CompletedOptions) error {
	config, err := apiserver.NewConfig(o)
	if err != nil {
		return err
	}
	built := config.KubeAPIs.ControlPlane.Generic
	built.RESTOptionsGetter = longWatches{built.RESTOptionsGetter}
	custom := &config.ApiExtensions.ExtraConfig
	custom.CRDRESTOptionsGetter = longWatches{custom.CRDRESTOptionsGetter}

	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := apiserver.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// longWatches hands out every resource's storage with queued watches.
type longWatches struct{ generic.RESTOptionsGetter }

func (l longWatches) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := l.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return o, err
	}
	decorate := o.Decorator
	o.Decorator = func(
		config *storagebackend.ConfigForResource, prefix string,
		keyOf func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
		attributesOf storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		inner, destroy, err := decorate(config, prefix, keyOf, newObject, newList, attributesOf, triggers, indexers)
		if err != nil {
			return nil, destroy, err
		}
		return queuedStorage{inner}, destroy, nil
	}
	return o, nil
}

type queuedStorage struct{ storage.Interface }

func (s queuedStorage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	inner, err := s.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return watchqueue.Wrap(inner), nil
}
