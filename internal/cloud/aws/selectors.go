// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func newFilter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// tagFilters select by tags; the value * is any.
func tagFilters(tags map[string]string) []types.Filter {
	var out []types.Filter
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if v := tags[k]; v == "*" {
			out = append(out, newFilter("tag-key", k))
		} else {
			out = append(out, newFilter("tag:"+k, strings.Split(v, ",")...))
		}
	}
	return out
}

// anyValueWhereEmpty has tags without a value mean any value.
func anyValueWhereEmpty(tags map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range tags {
		if v == "" {
			v = "*"
		}
		out[k] = v
	}
	return out
}

func ec2Tags(m map[string]string) []types.Tag {
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, types.Tag{Key: sdk.String(k), Value: sdk.String(m[k])})
	}
	return out
}

// selectorKey is the text of a selector, as a key.
func selectorKey(terms any) string {
	b, err := json.Marshal(terms)
	if err != nil {
		return fmt.Sprint(terms) // of plain fields: it can't fail
	}
	return string(b)
}

func sortByKey[T any](list []T, key func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

func deref[T any](p *T) T {
	var none T
	if p == nil {
		return none
	}
	return *p
}
