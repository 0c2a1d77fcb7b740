// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command dradriver runs the controller of Karpenter's DRA driver for kwok nodes (sigs.k8s.io/karpenter/dra-kwok-driver): every 30 seconds it publishes
// the ResourceSlices that DRAConfigs describe. Karpenter's own main package of 1.15.0 does not register ListOptions for the group of DRAConfigs, so
// it reads none ("v1.ListOptions is not suitable for converting"). This one does, and serves no ports.
package main

import (
	"log"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/karpenter/dra-kwok-driver/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/dra-kwok-driver/pkg/controllers"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, resourceapi.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0"})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := controllers.NewResourceSliceController(manager.GetClient()).Register(ctx, manager); err != nil {
		return err
	}
	return manager.Start(ctx)
}
