// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package offering is what can be bought: instance types with what a node of each will have (TypeBuilder), each in
// zones, capacity types and prices (Set), and the options among them that a launch request allows (Set.Options).
//
// It asks AWS for nothing. Which offerings a node class has is for fleet and asg to say, each of its own kind. A Set
// is never changed, and the same one is given out as long as what it was built from is the same (Cache), so a caller
// may compare addresses.
package offering
