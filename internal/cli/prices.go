// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const priceFileUsage = "File with prices by instance type, zone and capacity type, CSV or JSON. Replaces the prices of the cloud (docs/COMMANDS.md#price-files)"

const catalogUsage = "File with instance types and prices, as for 'dovetail plan'."

// priceFlags say which instance types and prices a command works with.
type priceFlags struct {
	catalog, prices string // files
}

func (f *priceFlags) add(g *pflag.FlagSet, usage string) {
	g.StringVar(&f.catalog, "catalog", "", usage+" Default: "+catalog.BuiltinName)
	g.StringVar(&f.prices, "price-file", "", priceFileUsage)
}

// args returns the flags for another command.
func (f *priceFlags) args() []string {
	return flagArgs("--catalog", f.catalog, "--price-file", f.prices)
}

// read returns the instance types of the catalog with the prices of the price file, and these prices, nil without a file.
func (f *priceFlags) read() (*catalog.Catalog, *catalog.PriceList, error) {
	cat, err := catalog.Load(f.catalog)
	if err != nil || f.prices == "" {
		return cat, nil, err
	}
	list, err := catalog.LoadPrices(f.prices)
	if err != nil {
		return nil, nil, err
	}
	cat.Reprice(list)
	cat.Name += " and " + f.prices
	return cat, list, nil
}

// load returns the instance types of the catalog with the prices of the price file. It lists instance types that only the
// price file names on warnings.
func (f *priceFlags) load(warnings io.Writer) (*catalog.Catalog, error) {
	cat, list, err := f.read()
	if err != nil || list == nil {
		return cat, err
	}
	f.warn(warnings, list, cat, nil)
	return cat, nil
}

// warn lists the instance types that only the price file names: neither the catalog has them, nor are they among the used ones. list may be nil.
func (f *priceFlags) warn(warnings io.Writer, list *catalog.PriceList, cat *catalog.Catalog, used []*model.InstanceType) {
	if list == nil {
		return
	}
	missing := slices.DeleteFunc(list.TypesNotIn(cat), func(name string) bool {
		return slices.ContainsFunc(used, func(t *model.InstanceType) bool { return t.Name == name })
	})
	if len(missing) > 0 {
		fmt.Fprintf(warnings, "Warning: price file %s: ignored %s that the catalog does not have: %s\n", f.prices, model.Count(len(missing), "instance type"), strings.Join(missing, ", "))
	}
}

// watchPrices returns the prices of a file as they are when it is called; none without a file.
func watchPrices(path string, log *slog.Logger) (func() cloud.PriceTable, error) {
	if path == "" {
		return func() cloud.PriceTable { return nil }, nil
	}
	file, err := catalog.OpenPriceFile(path, time.Now, log)
	if err != nil {
		return nil, exit{2, fmt.Errorf("--price-file: %w", err)}
	}
	return func() cloud.PriceTable { return file.Prices() }, nil
}
