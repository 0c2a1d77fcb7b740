// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "fmt"

// DefaultPolicy is good for a plan that a person asks for: a second of refining at most, claims kept flexible. A
// controller, for which pods wait, allows itself less work.
func DefaultPolicy() Policy {
	return Policy{
		MaxGapPPM:    3_000,
		MachineMicro: 2_000,
		Work:         300_000_000,
		PremiumPPM:   100_000,
		ChoicePPM:    10_000,
		MaxTypes:     60,

		PreferencePPM: 200_000,
	}
}

// Validate says which knob is out of range.
func (p Policy) Validate() error {
	switch {
	case p.MaxGapPPM < 0:
		return fmt.Errorf("policy maxGapPPM is %d, must not be negative", p.MaxGapPPM)
	case p.Work < 0:
		return fmt.Errorf("policy work is %d, must not be negative", p.Work)
	case p.MachineMicro < 0:
		return fmt.Errorf("policy machineMicro is %d, must not be negative", p.MachineMicro)
	case p.PremiumPPM < 0 || p.PremiumPPM > 10_000_000:
		return fmt.Errorf("policy premiumPPM is %d, must be between 0 and 10000000", p.PremiumPPM)
	case p.ChoicePPM < 0 || p.ChoicePPM > 10_000_000:
		return fmt.Errorf("policy choicePPM is %d, must be between 0 and 10000000", p.ChoicePPM)
	case p.PreferencePPM < 0 || p.PreferencePPM > 10_000_000:
		return fmt.Errorf("policy preferencePPM is %d, must be between 0 and 10000000", p.PreferencePPM)
	case p.MaxTypes < 1:
		return fmt.Errorf("policy maxTypes is %d, must be at least 1", p.MaxTypes)
	}
	return nil
}
