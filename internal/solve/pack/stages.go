// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

// stage is a part of packing that may be left out: plans stay valid without it, and may cost more or refuse more
// pods. Input.LeaveOut names the one to leave out, for measurements of what each earns; so it does for
// LowerBounds.
type stage struct {
	Name, Doc string
}

const (
	stageNodesByPrice   = "nodes by price"
	stageAdaptivePrices = "adaptive exclusivity prices"
	stageLearnedDuals   = "learned duals"
	stageColumns        = "column generation"
	stageTable          = "exact patterns"
	stageEnumeration    = "every way for few pods"
	stageDive           = "dive"
	stageRuin           = "ruin and recreate"
	stageProofDuals     = "duals for the proof"
	stageCeilingSearch  = "ceiling search"
	stageConsolidation  = "consolidation"
	stageLeftovers      = "leftovers"
	StageAlternatives   = "alternatives"
)

// Stages are the optional stages in the order in which they run.
var Stages = []stage{
	{stageNodesByPrice, "existing nodes are filled all at once by dual prices, and not class by class where pods fit first"},
	{stageAdaptivePrices, "what a place for one of a mutual anti-affinity group costs is adapted while machines are bought"},
	{stageLearnedDuals, "greedy packing is repeated with duals learned from what pods came to cost"},
	{stageColumns, "columns are generated, and the program over them rounded"},
	{stageTable, "columns are priced by an exact table over two resources once quick searches find none"},
	{stageEnumeration, "few pods are packed in every way, and the cheapest is kept"},
	{stageDive, "the program over columns is rounded one column at a time, and solved again between"},
	{stageRuin, "the machines used worst are taken out and packed again"},
	{stageProofDuals, "duals are looked for that prove most, after those that pack best"},
	{stageCeilingSearch, "what a machine's pattern is worth at most is lowered by trying patterns"},
	{stageConsolidation, "machines to buy are emptied into free capacity of the others"},
	{stageLeftovers, "pods left out are tried once more one by one, on free capacity too"},
	{StageAlternatives, "the problem is solved anew with other starts of groups and other orders of levels and classes"},
}
