// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"testing"

	"pgregory.net/rapid"
)

func TestMoney(t *testing.T) {
	for _, c := range []struct {
		micro                int64
		exact, people, short string
	}{
		{0, "0", "0.0000", "$0.0000"},
		{1, "0.000001", "0.000001", "$0.0000"},
		{99, "0.000099", "0.000099", "$0.0001"},
		{76_500, "0.0765", "0.0765", "$0.0765"},
		{76_550, "0.07655", "0.0766", "$0.0766"},
		{-76_500, "-0.0765", "-0.0765", "$-0.0765"},
		{999_960, "0.99996", "1.0000", "$1.0000"},
		{12_344_999, "12.344999", "12.3450", "$12.34"},
		{1_234_567_890, "1234.56789", "1234.5679", "$1,235"},
		{1_234_567_000_000, "1234567", "1234567.0000", "$1,234,567"},
	} {
		if got := FormatMicro(c.micro); got != c.exact {
			t.Errorf("FormatMicro(%d) = %s, want %s", c.micro, got, c.exact)
		}
		if got := Dollars(c.micro); got != c.people {
			t.Errorf("Dollars(%d) = %s, want %s", c.micro, got, c.people)
		}
		if got := ShortDollars(c.micro); got != c.short {
			t.Errorf("ShortDollars(%d) = %s, want %s", c.micro, got, c.short)
		}
	}
}

// What FormatMicro writes ParseDollars reads without loss.
func TestMoneyIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micro := rapid.Int64Range(0, maxUSD*1e6).Draw(t, "micro")
		if again, ok := ParseDollars(FormatMicro(micro)); !ok || again != micro {
			t.Fatalf("%d is written %s and read %d, %t", micro, FormatMicro(micro), again, ok)
		}
	})
}
