// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// priceCheck is how often a price file is read again.
const priceCheck = 10 * time.Second

// PriceFile is a price file that is reloaded when it changes. It is safe for concurrent use.
type PriceFile struct {
	path string
	now  func() time.Time
	log  *slog.Logger

	mu      sync.Mutex
	list    *PriceList
	data    []byte // what list was read from
	checked time.Time
	problem string // why the file as it is now is not in use
}

// OpenPriceFile reads a price file. Errors name file, line, field and value.
func OpenPriceFile(path string, now func() time.Time, log *slog.Logger) (*PriceFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read price file: %w", err)
	}
	list, err := ParsePrices(path, data)
	if err != nil {
		return nil, err
	}
	return &PriceFile{path: path, now: now, log: log, list: list, data: data, checked: now()}, nil
}

// Prices returns the prices of the file: the same list while the file is unchanged. If the changed file is invalid, the
// error is logged and the previous prices stay in use.
func (f *PriceFile) Prices() *PriceList {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.checked) < priceCheck {
		return f.list
	}
	f.checked = now
	data, err := os.ReadFile(f.path)
	if err == nil && bytes.Equal(data, f.data) {
		f.problem = ""
		return f.list
	}
	var list *PriceList
	if err == nil {
		list, err = ParsePrices(f.path, data)
	}
	switch {
	case err == nil:
		f.list, f.data, f.problem = list, data, ""
		f.log.Info("price file reloaded", "file", f.path, "prices", list.Len())
	case err.Error() != f.problem:
		f.problem = err.Error()
		f.log.Warn("price file not reloaded; the last prices stay in use", "error", err)
	}
	return f.list
}
