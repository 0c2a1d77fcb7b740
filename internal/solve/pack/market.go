// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Machine is a set of equal offers: one type of one pool at one price with the same capacity, which admit the same
// demands. Only machines that no other dominates in capacity, price and demands are used.
type Machine struct {
	pool         int
	instanceType *model.InstanceType
	Available    problem.Vec // capacity for pods; less than that of the type if minValues requires other types too
	Price        int64       // micro-dollars per hour
	AdjustedCost int64       // see AdjustPrice, including limit prices; plans are compared by it
	Admits       []uint64    // offer sets of demands, as a bitmap by index in Market
	offers       []int
	ports        problem.TakenPorts // by DaemonSets
	traits       problem.NodeTraits
	searchFutile bool            // searching its patterns for a ceiling came to no end
	Quantity     int             // as Offer.Quantity
	capacity     model.Resources // that limits are charged
}

// Item is a number of pods of one demand on a machine.
type Item = lp.Item

// Pattern is the contents of one machine, and their value at the duals, micro-dollars << DualShift.
type Pattern struct {
	Machine int
	items   []Item // by demand
	worth   int64
	made    bool
}

// batch is copies of one machine with one pattern.
type batch struct {
	machine *Machine
	pool    int // of the machine's family
	items   []Item
	copies  int64
}

// Market is a set of demands and the machines on which they may be packed, all of one level.
type Market struct {
	topology.Compiled
	Purchases *Purchases
	Demands   []*Demand

	offerSets []*problem.OfferSet
	SetOf     []int // by demand: index of its offer set
	Machines  []*Machine

	requestBlocks []requestBlock // blocksEach of them a demand: what a pod of it asks for
	blocksEach    int
	sizeOf        []int32                  // by demand: those that follow each other with one number ask for the same
	maxEach       []int64                  // by demand: as many on a machine and no more; nil: as many as have room
	Restricted    []bool                   // by demand: rules, ports or volumes restrict which pods may share its machine
	neighbours    []problem.NeighbourRules // by demand: which
	Relaxed       bool                     // for a bound: patterns satisfy only the rules that bounds use

	exclusivityDemands [][]int           // by mutual anti-affinity group; see exclusivityDemandsOf
	feasibilityIndex   *feasibilityIndex // nil: not made for these machines yet
	FreeAccess         []int8            // by demand: how much free capacity is available to it; nil: not distinguished
	kindOf             []int32           // by demand: those of one number ask for the same and may go to the same offers
	numKinds           int               // how many numbers there are
}

// Prices are the values of pods and resources in a packing: dual prices, which guide greedy packing and prove bounds.
type Prices struct {
	topology.Compiled
	Market *Market

	resourcePrices  [problem.MaxDims]int64   // of a unit of each resource, micro-dollars << PriceShift
	resourcePricing *resourcePricing         // nil: not made for these machines yet
	feasibility     *FeasibilityClasses      // prices of resources by who may go where
	uniformPrices   bool                     // who may go where makes next to no difference to prices
	freeCapacity    [problem.MaxDims]float64 // of existing nodes, which is filled before anything is bought
	largest         problem.Vec              // the most of each resource that a machine has
	lowerBound      int64                    // what the demands cost at least by resource prices, were they alone, micro-dollars an hour

	Dual         []int64   // by demand: value of one pod, micro-dollars << DualShift
	resourceDual []int64   // by demand: what its resources are worth, in the same unit
	biasedDual   []int64   // by demand: dual, exaggerated or not, as patterns are built by it
	dualFactor   []float64 // by demand: how much more than its resources a pod is worth, for what it cost before; nil: no more. See learnDuals

	exclusivityPrices [problem.MaxDims]exclusivityPrice // by mutual anti-affinity group
	adaptivePrices    bool                              // see adaptExclusivityPrices
	priceAdaptations  int                               // how often exclusivity prices were looked at
}

// Packing is the state of packing demands onto machines within one level: patterns, and their order.
type Packing struct {
	topology.Compiled
	Market *Market
	Prices *Prices

	stepBudget int64 // for refining
	separated  bool  // preferences of pods to be apart are kept
	lossShift  uint  // binary digits of the loss that greedy overlooks

	buf         patternBuffers
	openDemands []int32   // demands that pods may be left of
	openBySet   []int     // by offer set: how many of them
	openLists   [][]int32 // with adaptive prices, instead of openDemands: by offer set
	samples     int       // taken so far
	sampleSize  int       // candidates kept of many
}

// requestBlock is what a pod of a demand asks for of some resources, and that as a share of Prices.largest, in parts of
// 1<<shareShift; mutual anti-affinity groups have no share.
type requestBlock struct{ request, share [blockSize]int64 }

// blockSize is how many resources a block has.
const blockSize = 4

// exclusivityPrice is the price of one slot of a mutual anti-affinity group in addition to resource prices.
type exclusivityPrice struct {
	most int64 // the price of the cheapest machine that holds one
	part int64 // of it, in parts of exclusivityPriceParts; 0 stands for all
	pods int64 // of the group that are left
	rest int64 // what all pods left are worth, exclusivity prices left out
	// Since the part was last changed:
	machines int64
	held     int64 // what they hold is worth, exclusivity prices left out
	share    int64 // and what was left then for each pod of the group
}

// exclusivityPriceParts is the divisor of a machine's price for a step of an exclusivity price, exclusivityPriceWindow
// the number of machines after which an exclusivity price is examined.
const (
	exclusivityPriceParts  = 1 << 10
	exclusivityPriceWindow = 8
)

// current returns the price of a slot, micro-dollars per hour.
func (f *exclusivityPrice) current() int64 {
	if f.part == 0 {
		return f.most
	}
	return problem.MulDiv(f.most, f.part, exclusivityPriceParts)
}

// resourcePricing is that program for any amounts.
type resourcePricing struct {
	sizes []problem.Vec
	cost  []int64
	rows  [][]float64
	limit []float64
	nd    int

	cheapest [problem.MaxDims]int64 // least price of a unit of each resource, machines of limited quantity included; -1: no machine has it
	largest  problem.Vec            // the most of it that a machine has
}

// patternBuffers is memory that patterns are made in, so that making one allocates next to nothing.
type patternBuffers struct {
	used       []int64           // by demand, in the pattern being made
	inPattern  []int             // demands of which some are used
	counts     []int32           // counters within the pattern
	touched    []int             // of counts
	candidates []int32           // demands that still fit
	occupancy  problem.Occupancy // of what the pattern holds
}

// FeasibilityClasses are resource prices by the machines that demands may use: an amount that fits only on large
// machines, or only in one zone, is worth more than one that fits anywhere. A single price per resource would fall to
// that of cheap small machines, although pods that fit only on large ones cannot use them.
//
// The program behind them divides the capacity of each machine, resource by resource, among the feasibility classes that
// may use it. So a certificate is a price for each feasibility class and resource such that no machine costs less than
// the value of its capacity, each resource at the highest price among the feasibility classes that the machine may hold.
type FeasibilityClasses struct {
	p       *Market
	Classes []FeasibilityClass
	ClassOf []int                    // by demand: its feasibility class; -1: none
	prices  [][problem.MaxDims]int64 // by feasibility class: micro-dollars << PriceShift
}

// FeasibilityClass is a set of demands that may use about the same machines. Each is assumed to be allowed wherever one
// of them is.
type FeasibilityClass struct {
	machines     []uint64    // as a bitmap, by number in packing
	requests     problem.Vec // of all its pods
	leastRequest problem.Vec // of each resource the least that one of its pods asks for
}

// feasibilityIndex is what feasibility classes of the same demands and machines have in common, however many pods are
// left.
type feasibilityIndex struct {
	p           *Market
	kinds       []demandKind
	byBits      map[string]*machineSet
	admitted    [][]uint64 // by offer set: the machines that it admits, and the least of each resource that all of them have
	least       []problem.Vec
	machinesBuf []uint64 // scratch
	round       int      // of collectSets
	sets        []*machineSet
	classOf     []int
}

// demandKind is demands that ask for the same and may go to the same offers.
type demandKind struct {
	set   *machineSet // nil: only machines of limited quantity hold it: it is worth nothing here
	steps int64       // that finding the set takes
	round int         // the last with any left; 0: not looked at yet
}

// machineSet is demands that may go to the same machines.
type machineSet struct {
	members   FeasibilityClass
	unitPrice [problem.MaxDims]int64 // least price of a unit of each resource
	access    int8
	class     int // its feasibility class
	round     int
}

// maxMasterRows is the maximum number of demands for column generation. With more demands, greedy patterns are good,
// because some pod always fits in a gap.
const maxMasterRows = 640

// maxCandidates is the maximum number of demands from which a pattern is chosen. Of more demands, a different sample is
// used each time: with this many, some pod always fits in a gap.
const maxCandidates = 160

// MachineAdmits reports whether pods of a demand are allowed on the machine, ignoring resources.
func (p *Market) MachineAdmits(m *Machine, d int) bool {
	w := p.SetOf[d]
	return m.Admits[w>>6]>>(w&63)&1 != 0
}

// PricesOf returns the prices of machines, for a linear program that proves a bound.
func PricesOf(machines []*Machine) []float64 {
	out := make([]float64, len(machines))
	for i, m := range machines {
		out[i] = float64(m.Price)
	}
	return out
}

// maxPodsOf is how many pods of a demand a new machine may hold whatever fits; see Class.MaxPerNewNode.
func (p *Market) maxPodsOf(d int) int64 {
	if p.maxEach == nil {
		return problem.Unlimited
	}
	return p.maxEach[d]
}
