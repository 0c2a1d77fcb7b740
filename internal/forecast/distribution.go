// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

const (
	// buckets is the number of intervals that a distribution tells apart.
	buckets = 24
	// sample is what one observation adds to a bucket; it fades by at least one a day, and so is gone after eight days.
	sample = 8
	// maxCount is the largest content of a bucket. A distribution that has reached it is halved.
	maxCount = 65535
)

// bucketEdge returns the upper edge of bucket i, in units of the workload's scale (see History.scale). Bucket 5 is
// everything from -0.5 to 0, the first of the rises is 6; the last bucket is open.
func bucketEdge(i int) float64 {
	return [buckets]float64{-3, -2, -1.5, -1, -0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 14, 20, 32, 64}[i]
}

// bucketOf returns the bucket that holds x.
func bucketOf(x float64) int {
	for i := range buckets - 1 {
		if x <= bucketEdge(i) {
			return i
		}
	}
	return buckets - 1
}

// counts is a histogram of scaled rises, in units of 1/sample observations.
type counts [buckets]uint16

// add counts one observation of x.
func (c *counts) add(x float64) {
	b := bucketOf(x)
	if c[b] > maxCount-sample {
		for i := range c {
			c[i] /= 2
		}
	}
	c[b] += sample
}

// fade takes an eighth from each bucket, at least one.
func (c *counts) fade() {
	for i, n := range c {
		c[i] = n - (n+7)/8
	}
}

// weights is a sum of histograms.
type weights struct {
	of    [buckets]float64
	total float64
}

// addCounts adds the observations of c.
func (w *weights) addCounts(c *counts) {
	for i, n := range c {
		if n > 0 {
			x := float64(n) * (1.0 / sample)
			w.of[i] += x
			w.total += x
		}
	}
}

// addShare adds the shape of o as if it were n observations.
func (w *weights) addShare(o *weights, n float64) {
	if o.total <= 0 {
		return
	}
	for i, x := range o.of {
		w.of[i] += x / o.total * n
	}
	w.total += n
}

// quantile returns the value that a share q of the observations does not exceed, interpolated within its bucket; 0
// without observations.
func (w *weights) quantile(q float64) float64 {
	left := q * w.total
	for i, n := range w.of {
		if n <= 0 {
			continue
		}
		if left <= n {
			if i == 0 {
				return bucketEdge(0)
			}
			lower := bucketEdge(i - 1)
			return lower + (bucketEdge(i)-lower)*left/n
		}
		left -= n
	}
	for i := buckets - 1; i >= 0; i-- {
		if w.of[i] > 0 {
			return bucketEdge(i)
		}
	}
	return 0
}

// sumOf returns the sum of histograms, all divided by the same power of two so that no bucket is too large.
func sumOf(all []counts) (out counts) {
	var sums [buckets]int
	largest := 0
	for i := range all {
		for k, n := range all[i] {
			sums[k] += int(n)
			largest = max(largest, sums[k])
		}
	}
	shift := 0
	for largest>>shift > maxCount {
		shift++
	}
	for k, n := range sums {
		out[k] = uint16(n >> shift)
	}
	return out
}

const (
	leadCount  = 5
	maxLead    = 10
	levelCount = 5

	sinceBins    = 5
	positionBins = 8
	clockBins    = 2 * 12

	// borrowed is how many observations of a wider class a narrower one is filled up with: a class with few of its own
	// says little about the far end of a distribution.
	borrowed = 40
	// betterBy is by which factor a method's error must be less than that of a simpler one.
	betterBy = 0.99
)

// learned is what is known of the rises within one lead time, scaled.
type learned struct {
	all      counts
	clock    [clockBins]counts
	since    [sinceBins]counts
	position [sinceBins * positionBins]counts
	smooth   counts // what demand reached, less what Smoothing had forecast
	season   counts // the same of SeasonalNaive

	scored int64                            // how many origins the errors are of
	errors [levelCount][methodCount]float32 // mean quantile loss, in replicas
}

func (l *learned) fade() {
	l.all.fade()
	l.smooth.fade()
	l.season.fade()
	for i := range l.clock {
		l.clock[i].fade()
	}
	for i := range l.since {
		l.since[i].fade()
	}
	for i := range l.position {
		l.position[i].fade()
	}
}

// origin is a minute seen as the one that a forecast was made at.
type origin struct {
	minute                 int64
	known                  bool
	clock, since, position uint8
	scale                  float64
	smooth, season         [leadCount]float32 // rises forecast before their errors are added
	seasonKnown            [leadCount]bool
	rises                  [leadCount][levelCount][methodCount]uint16 // what each method forecast then
}

// spike is a sudden rise of demand.
type spike struct {
	at   int64 // the minute of the first rise
	base uint16
	rise uint16
	ramp uint8 // minutes from the first rise to the top
}
