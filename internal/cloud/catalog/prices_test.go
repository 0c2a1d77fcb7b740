// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// renderPrices reads a price file. What it says is asked by lines "price of TYPE ZONE CAPACITY-TYPE" below it.
func renderPrices(input string) string {
	var file, out strings.Builder
	var asked []string
	for l := range strings.Lines(input) {
		if of, ok := strings.CutPrefix(l, "price of "); ok {
			asked = append(asked, strings.TrimSpace(of))
		} else {
			file.WriteString(strings.ReplaceAll(l, `\r`, "\r"))
		}
	}
	list, err := catalog.ParsePrices("prices", []byte(file.String()))
	if err != nil {
		return "error: " + err.Error()
	}
	for _, of := range asked {
		f := strings.Split(of, " ")
		price := "not known"
		if micro, ok := list.PriceMicro(f[0], f[1], f[2]); ok {
			price = model.FormatMicro(micro)
		}
		fmt.Fprintf(&out, "%s: %s\n", of, price)
	}
	return out.String()
}

// TestPriceFileReload: a changed file is read again, one with a mistake leaves the last prices in use, and the log names the
// mistake once.
func TestPriceFileReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.csv")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("type,usdPerHour\na,1\n")
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	f, err := catalog.OpenPriceFile(path, func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	first := f.Prices()
	want := func(step string, micro int64) {
		t.Helper()
		if have, ok := f.Prices().PriceMicro("a", "zone", model.OnDemand); !ok || have != micro {
			t.Errorf("%s: the price is %d, %t, want %d", step, have, ok, micro)
		}
	}
	write("type,usdPerHour\na,2\n")
	want("before the next check", 1_000_000)
	now = now.Add(10 * time.Second)
	want("after it", 2_000_000)
	for range 2 {
		write("type,usdPerHour\na,-1\n")
		now = now.Add(10 * time.Second)
		want("with a mistake", 2_000_000)
	}
	if n := strings.Count(log.String(), "line 2"); n != 1 {
		t.Errorf("the mistake is logged %d times, want once:\n%s", n, log.String())
	}
	write("type,usdPerHour\na,3\n")
	now = now.Add(10 * time.Second)
	want("mended", 3_000_000)
	second := f.Prices()
	now = now.Add(10 * time.Second)
	if f.Prices() != second || second == first {
		t.Error("an unchanged file gives another list, or a changed one the same")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Second)
	want("without the file", 3_000_000)
}

func FuzzPrices(f *testing.F) {
	f.Add("type,usdPerHour\na,1\n")
	f.Add(`[{"type": "a", "zone": "z", "capacityType": "spot", "usdPerHour": "0.5"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := catalog.ParsePrices("prices", []byte(text))
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), "price file prices"):
			t.Errorf("the error does not name the file: %v", err)
		case err == nil && list.Len() == 0:
			t.Error("no prices, and no error")
		}
	})
}
