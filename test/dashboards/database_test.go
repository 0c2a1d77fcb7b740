// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package dashboards

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// database holds the samples of all scrapes in memory.
type database struct {
	series      map[string]*series // by their labels
	first, last time.Time
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// add takes in a scrape of a target with these labels.
func (db *database) add(at time.Time, text []byte, target ...string) error {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read the scrape: %w", err)
	}
	for _, f := range families {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}, f)
		if err != nil {
			return fmt.Errorf("family %s: %w", f.GetName(), err)
		}
		for _, s := range samples {
			b := labels.NewBuilder(labels.FromStrings(target...))
			for name, value := range s.Metric {
				b.Set(string(name), string(value))
			}
			l := b.Labels()
			x := db.series[l.String()]
			if x == nil {
				x = &series{labels: l}
				db.series[l.String()] = x
			}
			x.samples = append(x.samples, sample{at.UnixMilli(), float64(s.Value)})
		}
	}
	if db.first.IsZero() {
		db.first = at
	}
	db.last = at
	return nil
}

// ask returns how many series a query returns over the time of all scrapes.
func (db *database) ask(ctx context.Context, engine *promql.Engine, query string) (int, error) {
	q, err := engine.NewRangeQuery(ctx, db, nil, query, db.first, db.last, time.Second)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	m, err := q.Exec(ctx).Matrix()
	return len(m), err
}

func (db *database) find(matchers []*labels.Matcher) (out []*series) {
	for _, s := range db.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	return out
}

// Querier implements storage.Queryable.
func (db *database) Querier(from, to int64) (storage.Querier, error) {
	return &querier{db: db, from: from, to: to}, nil
}

type querier struct {
	storage.LabelQuerier // is not asked
	db                   *database
	from, to             int64
}

// Select implements storage.Querier.
func (q *querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, s := range q.db.find(matchers) {
		var in []chunks.Sample
		for _, x := range s.samples {
			if x.T() >= q.from && x.T() <= q.to {
				in = append(in, x)
			}
		}
		set.list = append(set.list, storage.NewListSeries(s.labels, in))
	}
	return set
}

// Close implements storage.Querier.
func (q *querier) Close() error { return nil }

type seriesSet struct {
	list []storage.Series
	now  storage.Series
}

// Next implements storage.SeriesSet, as do At, Err and Warnings.
func (s *seriesSet) Next() bool {
	if len(s.list) == 0 {
		return false
	}
	s.now, s.list = s.list[0], s.list[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.now }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample implements chunks.Sample.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
