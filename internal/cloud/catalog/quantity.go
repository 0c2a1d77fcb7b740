// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// FormatQuantity returns an amount of a resource as kubectl prints it: 1930m, 6903Mi, 29.
func FormatQuantity(resource string, amount int64) string {
	return model.FormatAmount(model.DimOf(resource), amount)
}

// maxQuantity keeps sums of many amounts far from overflow: 4 EiB, or as many milli-cores.
const maxQuantity = 1 << 62

// ParseQuantity parses a Kubernetes quantity into the unit of the resource in package model. Fractions of the unit are
// rounded up, as in the API server.
func ParseQuantity(resource, text string) (int64, error) {
	digits := strings.TrimLeft(text, "+")
	end := 0
	for end < len(digits) && (digits[end] >= '0' && digits[end] <= '9' || digits[end] == '.') {
		end++
	}
	number, suffix := digits[:end], digits[end:]
	if number == "" || number == "." || strings.Count(number, ".") > 1 || len(number) > 40 {
		return 0, errors.New("not a quantity; write a number with an optional suffix, for example 1930m, 6903Mi or 29")
	}
	if v, ok := wholeQuantity(resource, number, suffix); ok {
		return v, nil
	}
	scale, ok := suffixes(suffix)
	if !ok {
		return 0, fmt.Errorf("unknown suffix %q; use m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi", suffix)
	}
	v, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, errors.New("not a number")
	}
	v.Mul(v, scale)
	if model.DimOf(resource) == model.CPU {
		v.Mul(v, big.NewRat(1000, 1))
	}
	n := new(big.Int).Add(v.Num(), new(big.Int).Sub(v.Denom(), big.NewInt(1)))
	n.Quo(n, v.Denom())
	if !n.IsInt64() || n.Int64() > maxQuantity {
		return 0, errors.New("too large")
	}
	return n.Int64(), nil
}

// wholeQuantity is the short way for what nearly all quantities are: a small whole number of a usual unit.
func wholeQuantity(resource, number, suffix string) (int64, bool) {
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return 0, false
	}
	switch cpu := model.DimOf(resource) == model.CPU; {
	case suffix == "" && cpu:
		return n * 1000, true
	case suffix == "", suffix == "m" && cpu:
		return n, true
	case suffix == "Mi" && !cpu:
		return n << 20, true
	case suffix == "Gi" && !cpu:
		return n << 30, true
	}
	return 0, false
}

func suffixes(s string) (*big.Rat, bool) {
	switch s {
	case "n":
		return big.NewRat(1, 1e9), true
	case "u":
		return big.NewRat(1, 1e6), true
	case "m":
		return big.NewRat(1, 1e3), true
	case "":
		return big.NewRat(1, 1), true
	}
	if i := strings.Index("kMGTPE", s); len(s) == 1 && i >= 0 {
		return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(1000), big.NewInt(int64(i+1)), nil)), true
	}
	if i := strings.Index("KMGTPE", strings.TrimSuffix(s, "i")); len(s) == 2 && s[1] == 'i' && i >= 0 {
		return new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(10*(i+1)))), true
	}
	if len(s) > 1 && (s[0] == 'e' || s[0] == 'E') {
		e, err := strconv.Atoi(s[1:])
		if err != nil || e < -18 || e > 18 {
			return nil, false
		}
		r := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(e, -e))), nil))
		if e < 0 {
			r.Inv(r)
		}
		return r, true
	}
	return nil, false
}

// maxUSDPerHour is more than any machine costs; a price above it is a wrong unit.
const maxUSDPerHour = 1_000_000

// ParsePrice parses dollars per hour in JSON number format into micro-dollars, rounded half up, but never to zero.
func ParsePrice(text string) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return 0, errors.New("not a number of dollars per hour")
	case f <= 0:
		return 0, errors.New("must be more than 0")
	case f > maxUSDPerHour:
		return 0, fmt.Errorf("more than %d dollars per hour", maxUSDPerHour)
	case f < 1e-6:
		return 1, nil
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, errors.New("not a number of dollars per hour")
	}
	v.Mul(v, big.NewRat(1e6, 1)).Add(v, big.NewRat(1, 2))
	return max(1, new(big.Int).Quo(v.Num(), v.Denom()).Int64()), nil
}
