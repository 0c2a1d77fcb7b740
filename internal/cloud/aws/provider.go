// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// ListDelay is how long EC2 may take to describe an instance that it has launched. It says seconds; this is its own advice for how
// long to go on asking, cut short.
const ListDelay = 10 * time.Second

// Resources is the table of resource names that all vectors use.
type Resources interface {
	Dim(name string) model.Dim
	Names() []string
}

// Provider buys from EC2 for one cluster.
type Provider struct {
	config    Config
	region    string
	resources Resources
	clock     cloud.Clock
	log       *slog.Logger

	autoscaling *autoscaling.Client
	ec2         *ec2.Client
	ssm         *ssm.Client
	sqs         *sqs.Client
	pricing     *pricing.Client
	iam         *iam.Client
	eks         *eks.Client

	subnetCache        *cache[[]*subnet]
	securityGroupCache *cache[[]securityGroup]
	reservationCache   *cache[[]reservation]
	placementCache     *cache[*types.PlacementGroup]
	imageCache         *cache[[]image]
	profileCache       *cache[string]
	clusterCache       *cache[clusterFacts]
	templateCache      *cache[struct{}]
	permissionCache    *cache[model.Condition]
	groupDescriptions  *cache[groupDescription]
	groupTemplateCache *cache[*types.ResponseLaunchTemplateData]
	refreshCache       *cache[string]
	architectureCache  *cache[types.ArchitectureType]
	attributeTypeCache *cache[[]string]
	builtin            *catalog.Catalog

	catalogue     catalogueStore
	nodeMemory    nodeMemory
	offeringCache offeringCache
	launches      launchRegistry
	quotas        quotaTracker
	instances     instanceIndex
	terminations  *batcher[string, error]
	registry      groupRegistry
	endedClasses  endedClasses
	started       time.Time
}

// New makes a provider. Nothing is called before it is used; Run keeps what it knows fresh.
func New(c *Clients, config Config, resources Resources, clock cloud.Clock, log *slog.Logger) (*Provider, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	builtin, err := catalog.Builtin()
	if err != nil {
		return nil, err
	}
	p := &Provider{
		autoscaling: c.AutoScaling, registry: newGroupRegistry(), started: clock.Now(),
		config: config, region: c.Region, resources: resources, clock: clock, log: log,
		ec2: c.EC2, ssm: c.SSM, sqs: c.SQS, pricing: c.Pricing, iam: c.IAM, eks: c.EKS, builtin: builtin,
		subnetCache: newCache[[]*subnet](clock, config.SubnetRefresh), securityGroupCache: newCache[[]securityGroup](clock, 5*time.Minute),
		reservationCache: newCache[[]reservation](clock, time.Minute), placementCache: newCache[*types.PlacementGroup](clock, 5*time.Minute),
		imageCache: newCache[[]image](clock, config.AMIRefresh), profileCache: newCache[string](clock, 15*time.Minute),
		clusterCache: newCache[clusterFacts](clock, 15*time.Minute), templateCache: newCache[struct{}](clock, time.Hour),
		permissionCache:   newCache[model.Condition](clock, 30*time.Minute),
		groupDescriptions: newCache[groupDescription](clock, config.GroupRefresh), groupTemplateCache: newCache[*types.ResponseLaunchTemplateData](clock, time.Minute), refreshCache: newCache[string](clock, 30*time.Second),
		architectureCache: newCache[types.ArchitectureType](clock, time.Hour), attributeTypeCache: newCache[[]string](clock, time.Hour),
	}
	p.launches.byClaim = map[string]*claimLaunch{}
	p.quotas.exhausted = map[quotaKey]exhaustedQuota{}
	p.catalogue.turn = make(chan struct{}, 1)
	p.catalogue.turn <- struct{}{}
	p.offeringCache.sets = map[string]*offeringSet{}
	p.instances.turn = make(chan struct{}, 1)
	p.instances.turn <- struct{}{}
	p.terminations = newBatcher(clock, 20*time.Millisecond, 500, p.terminateInstances)
	return p, nil
}

// Traits implements cloud.Provider.
func (p *Provider) Traits() cloud.Traits {
	return cloud.Traits{Name: "aws", Classes: []cloud.ClassKind{
		{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass}, {Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass},
	}, ListDelay: ListDelay}
}

// Run keeps instance types and prices fresh until the context ends.
func (p *Provider) Run(ctx context.Context) {
	swept := p.clock.Now()
	for ctx.Err() == nil {
		next := p.catalogue.nextRefresh(p.config)
		wait := time.Minute
		if !next.IsZero() {
			wait = min(max(next.Sub(p.clock.Now()), time.Second), 10*time.Minute)
		}
		if p.clock.Wait(ctx, wait) != nil {
			return
		}
		if _, err := p.loadCatalogue(ctx, true); err != nil && ctx.Err() == nil {
			p.log.Warn("instance types and prices not refreshed, those known stay in use", "error", err)
		}
		if now := p.clock.Now(); now.Sub(swept) >= time.Hour {
			swept = now
			if err := p.deleteUnusedTemplates(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("unused launch templates not deleted, trying again in an hour", "error", err)
			}
		}
	}
}

func asError[T error](err error, into *T) bool { return errors.As(err, into) }

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t) }

// batcher gathers what several callers ask for within a short time into one call.
type batcher[K comparable, V any] struct {
	clock   cloud.Clock
	window  time.Duration
	maxKeys int
	call    func(context.Context, []K) []V

	mu   sync.Mutex
	open *batch[K, V]
}

type batch[K comparable, V any] struct {
	keys    []K
	done    chan struct{}
	answers []V
}

func newBatcher[K comparable, V any](clock cloud.Clock, window time.Duration, most int, call func(context.Context, []K) []V) *batcher[K, V] {
	return &batcher[K, V]{clock: clock, window: window, maxKeys: most, call: call}
}

// ask asks for some keys and answers in their order; false when the context ended first.
func (b *batcher[K, V]) ask(ctx context.Context, keys []K) ([]V, bool) {
	type place struct {
		in *batch[K, V]
		at int
	}
	places := make([]place, len(keys))
	b.mu.Lock()
	for i, k := range keys {
		if b.open == nil || len(b.open.keys) >= b.maxKeys {
			next := &batch[K, V]{done: make(chan struct{})}
			b.open = next
			go b.runBatch(context.WithoutCancel(ctx), next)
		}
		places[i] = place{b.open, len(b.open.keys)}
		b.open.keys = append(b.open.keys, k)
	}
	b.mu.Unlock()
	out := make([]V, len(keys))
	for i, p := range places {
		select {
		case <-p.in.done:
			out[i] = p.in.answers[p.at]
		case <-ctx.Done():
			return nil, false
		}
	}
	return out, true
}

// batchTimeout is how long a batch's call may take, whoever waits for it.
const batchTimeout = time.Minute

func (b *batcher[K, V]) runBatch(ctx context.Context, mine *batch[K, V]) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	_ = b.clock.Wait(ctx, b.window) // cut short, the call says so
	b.mu.Lock()
	if b.open == mine {
		b.open = nil
	}
	b.mu.Unlock()
	mine.answers = b.call(ctx, mine.keys)
	close(mine.done)
}
