// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"maps"
	"slices"
)

// Missing returns the groups that are remembered as missing from the server's answers.
func (p *Provider) Missing() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.missing))
}
