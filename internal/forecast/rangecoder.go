// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import "math/bits"

// The format's entropy coder: an adaptive binary range coder as in LZMA. Writer and reader take the same walk over a
// History (see walk): each step is given a value and returns it, the writer's as it was written, the reader's as it was
// read.

const (
	probBits = 11
	probMove = 4
	rangeTop = 1 << 24
)

// prob is the probability of a 0, of 1<<probBits; the zero value is one half.
type prob int16

func (p prob) share(rng uint32) uint32 { return (rng >> probBits) * uint32(int32(p)+1<<(probBits-1)) }

func (p *prob) learn(bit int) {
	x := int32(*p) + 1<<(probBits-1)
	if bit == 0 {
		x += (1<<probBits - x) >> probMove
	} else {
		x -= x >> probMove
	}
	*p = prob(x - 1<<(probBits-1))
}

// coder writes or reads one bit, whose probability it learns; p is nil for a bit that is as often 0 as 1.
type coder interface{ bit(p *prob, bit int) int }

// bitWriter is the coder that writes.
type bitWriter struct {
	low   uint64
	rng   uint32
	cache byte
	held  int64 // bytes held back until it is known whether a carry reaches them
	out   []byte
}

func newBitWriter() *bitWriter { return &bitWriter{rng: 1<<32 - 1, held: 1} }

func (w *bitWriter) bit(p *prob, bit int) int {
	bound := w.rng >> 1
	if p != nil {
		bound = p.share(w.rng)
		p.learn(bit)
	}
	if bit == 0 {
		w.rng = bound
	} else {
		w.low += uint64(bound)
		w.rng -= bound
	}
	for w.rng < rangeTop {
		w.rng <<= 8
		w.shift()
	}
	return bit
}

func (w *bitWriter) shift() {
	if w.low < 0xFF000000 || w.low > 0xFFFFFFFF {
		carry := byte(w.low >> 32)
		for ; w.held > 0; w.held-- {
			w.out = append(w.out, w.cache+carry)
			w.cache = 0xFF
		}
		w.cache = byte(w.low >> 24)
	}
	w.held++
	w.low = w.low & 0x00FFFFFF << 8
}

// bytes returns what was written, to its end.
func (w *bitWriter) bytes() []byte {
	for range 5 {
		w.shift()
	}
	return w.out
}

// bitReader is the coder that reads. Beyond its input it reads zeros; short says that it has.
type bitReader struct {
	in        []byte
	code, rng uint32
	short     bool
}

func newBitReader(in []byte) *bitReader {
	r := &bitReader{in: in, rng: 1<<32 - 1}
	for range 5 {
		r.code = r.code<<8 | uint32(r.next())
	}
	return r
}

func (r *bitReader) next() byte {
	if len(r.in) == 0 {
		r.short = true
		return 0
	}
	b := r.in[0]
	r.in = r.in[1:]
	return b
}

func (r *bitReader) bit(p *prob, _ int) (bit int) {
	bound := r.rng >> 1
	if p != nil {
		bound = p.share(r.rng)
	}
	if r.code < bound {
		r.rng = bound
	} else {
		r.code -= bound
		r.rng -= bound
		bit = 1
	}
	if p != nil {
		p.learn(bit)
	}
	for r.rng < rangeTop {
		r.code = r.code<<8 | uint32(r.next())
		r.rng <<= 8
	}
	return bit
}

// flag is a bit that depends on one of four contexts.
type flag [4]prob

func (f *flag) code(c coder, context int, v bool) bool {
	bit := 0
	if v {
		bit = 1
	}
	return c.bit(&f[context&3], bit) == 1
}

// number is a value from 0 to 2³²-2, the smaller the more likely: how many bits it has, and the bits, of which the
// first two are learned.
type number struct {
	length [64]prob
	high   [33][4]prob
}

func (n *number) code(c coder, v uint32) uint32 {
	v++
	size := bits.Len32(v)
	node := 1
	for i := 5; i >= 0; i-- {
		node = node<<1 | c.bit(&n.length[node&63], size>>i&1)
	}
	size = min(32, max(1, node&63))
	out, ahead := uint32(1), 1
	for i := size - 2; i >= 0; i-- {
		var p *prob
		if i >= size-3 {
			p = &n.high[size][ahead&3]
		}
		b := c.bit(p, int(v>>i&1))
		out = out<<1 | uint32(b)
		ahead = ahead<<1 | b
	}
	return out - 1
}

// signed codes a value that is as likely to be negative.
func (n *number) signed(c coder, v int32) int32 {
	u := n.code(c, uint32(v<<1)^uint32(v>>31))
	return int32(u>>1) ^ -int32(u&1)
}

// raw codes the last so many bits of v as they are.
func raw(c coder, v uint64, size int) uint64 {
	out := uint64(0)
	for i := size - 1; i >= 0; i-- {
		out = out<<1 | uint64(c.bit(nil, int(v>>i&1)))
	}
	return out
}
