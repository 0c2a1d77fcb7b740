// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

// problemCompiler is the state needed only while a problem is compiled.
type problemCompiler struct {
	in      *Input
	work    *Work
	catalog *Catalog
	inst    *Instance

	filters   map[string]*nodeFilter
	fixedDims int    // how many resources every node has; they come first
	supplied  []bool // by resource beyond those: some node has it free, or some instance type has it

	daemonsHaveTerms bool // pods of some DaemonSet have required anti-affinity
	registers        bool // some class has a volume whose driver must be registered on the node: see model.Volume
}

// offerCompiler is the state needed only while offers are compiled.
type offerCompiler struct {
	in       *Input
	work     *Work
	catalog  *Catalog
	inst     *Instance
	compiler *problemCompiler

	sizeIDs     map[Vec]int    // places in Catalog.Sizes
	quantityIDs map[string]int // places in Instance.InitialQuantities

	labelShapes    []labelShape // by pool
	poolShapeStart []int        // by pool: where its shapes begin; one more for the end

	catalogs        []*poolCatalog
	poolByKey       map[string]int   // the first pool of each family
	volumesByDriver map[string]int64 // how many volumes the demand attaches at most; nil: not counted yet
}

// labelShape is what offers of one pool with the same labels have in common.
type labelShape struct {
	labels         []int32
	daemons        []int // of Instance.Daemons: those whose pods stand there
	daemonRequests Vec   // what they take
	ports          PortUse
}
