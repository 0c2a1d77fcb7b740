// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/controller/deletioncosts"
	"github.com/dovetail-sh/dovetail/internal/controller/headrooms"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

// releaseLimit is how long a process that ends tries to give its lease up.
const releaseLimit = 5 * time.Second

// controllerProcess is the controller's goroutines: servers, watch, leader election, the loop, and what runs beside it.
type controllerProcess struct {
	flags         *controllerFlags
	settings      *controllerSettings
	client        *client.Client
	objects       *translate.Translator
	actor         *write.Actor
	ctl           *controller.Controller
	refresh       func(context.Context) // keeps fresh what the provider knows; nil: nothing has to be
	headrooms     *headrooms.Keeper
	deletionCosts *deletioncosts.Keeper
	recorded      chan struct{} // closed when the recording is; nil: nothing is recorded
	failed        chan error    // the first error that any of them sends ends the process
}

// run starts everything and returns when a part of it fails or the context ends, which is no error. Before it returns it
// ends the loop and gives the lease up.
func (p *controllerProcess) run(parent context.Context, registry *prometheus.Registry) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	if err := p.serveController(ctx, registry); err != nil {
		return err
	}
	known := make(chan struct{})
	defer p.awaitRecording()
	defer cancel()
	synced, err := watch.Watch(ctx, p.client, p.objects, p.ctl.Emit, p.recorder(ctx, known))
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-synced:
			close(known)
		case <-ctx.Done():
		}
	}()
	go p.awaitSync(ctx, synced)
	if p.flags.mode == modeActive {
		if p.refresh != nil {
			p.ctl.Background = append(p.ctl.Background, p.refresh)
		}
		if p.settings.groups != nil {
			p.ctl.Background = append(p.ctl.Background, func(ctx context.Context) { p.keepNodeGroups(ctx, synced) })
		}
		p.ctl.Background = append(p.ctl.Background, p.keepProvisioners, p.keepDevices, p.headrooms.Run, p.deletionCosts.Run)
	}

	loopEnded, released := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(released)
		p.elect(ctx, loopEnded)
	}()
	go func() {
		err := p.ctl.Run(ctx)
		close(loopEnded)
		p.failed <- err
	}()
	err = <-p.failed
	cancel()
	select {
	case <-released: // or the next leader would wait until the lease has run out
	case <-time.After(releaseLimit):
	}
	if parent.Err() != nil {
		return nil
	}
	return err
}

// awaitSync tells the loop when the watch has delivered the whole cluster once.
func (p *controllerProcess) awaitSync(ctx context.Context, synced <-chan struct{}) {
	select {
	case <-synced:
		if p.flags.mode == modeActive {
			if err := write.RecallDevices(ctx, p.client, p.keptDevices(), p.objects, p.ctl.Emit); err != nil && ctx.Err() == nil {
				p.settings.log.Warn("learned devices of instance types were not read, trying again", "error", err.Error())
			}
		}
		p.settings.log.Info("cluster state read")
		p.ctl.MarkSynced()
	case <-ctx.Done():
	}
}

// keepNodeGroups makes NodePools of the node groups that are found, until the context ends.
func (p *controllerProcess) keepNodeGroups(ctx context.Context, synced <-chan struct{}) {
	select {
	case <-synced: // which claims there are decides what may be deleted
	case <-ctx.Done():
		return
	}
	if err := write.NodeGroups(ctx, p.client, p.settings.groups.with(p.actor, p.settings.log)); err != nil && ctx.Err() == nil {
		p.failed <- err
	}
}

// keepProvisioners makes NodePools of Provisioners, until the context ends.
func (p *controllerProcess) keepProvisioners(ctx context.Context) {
	if err := write.Provisioners(ctx, p.client, p.settings.provisioners, p.settings.log); err != nil && ctx.Err() == nil {
		p.failed <- err
	}
}

// keepDevices keeps what was learned of the devices of instance types, until the context ends.
func (p *controllerProcess) keepDevices(ctx context.Context) {
	write.Devices(ctx, p.client, p.keptDevices(), p.settings.log)
}

func (p *controllerProcess) keptDevices() *write.Kept {
	return write.NewKept(p.client, p.flags.lease.Namespace, "devices.json")
}

// elect leads while this process holds the lease, or for good where there is no election. It returns when the context
// has ended and the lease is given up, or when the lease was lost, which ends the process: the supervisor will start
// another. loopEnded is closed once the loop begins nothing any more, so that another may lead.
func (p *controllerProcess) elect(ctx context.Context, loopEnded <-chan struct{}) {
	if p.flags.mode == modeShadow {
		p.shadow(ctx)
		return
	}
	if !p.flags.leaderElect {
		p.lead(ctx)
		return
	}
	err := client.Lead(ctx, p.client, p.flags.lease, func(held context.Context) {
		p.lead(held)
		if ctx.Err() != nil {
			<-loopEnded
		}
	})
	if ctx.Err() == nil {
		p.failed <- fmt.Errorf("leader election: lost the lease: %w", err)
	}
}

// lead has the loop act until the context ends, passive while other autoscalers are live.
func (p *controllerProcess) lead(ctx context.Context) {
	p.settings.log.Info("became leader")
	p.ctl.RecallLessons(ctx)
	if p.flags.alone {
		p.ctl.StartActing()
		<-ctx.Done()
		return
	}
	p.client.Others(ctx, p.flags.others, p.flags.lease, func(others []string) {
		p.ctl.SetOtherAutoscalers(others)
		p.ctl.StartActing() // not before it is known who else there is
	})
}

// shadow has the loop decide and do nothing until the context ends. There is nothing to elect: each replica watches for
// itself.
func (p *controllerProcess) shadow(ctx context.Context) {
	p.settings.log.Info("shadow mode: decisions are not carried out")
	if p.refresh != nil {
		go p.refresh(cloud.LookOnly(ctx))
	}
	p.ctl.StartActing()
	p.client.Others(ctx, p.flags.others, p.flags.lease, p.ctl.SetOthersBeside)
}
