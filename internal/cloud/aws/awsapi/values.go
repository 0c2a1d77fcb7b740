// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func NewFilter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// TagFilters select by tags; the value * is any.
func TagFilters(tags map[string]string) []types.Filter {
	var out []types.Filter
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if v := tags[k]; v == "*" {
			out = append(out, NewFilter("tag-key", k))
		} else {
			out = append(out, NewFilter("tag:"+k, strings.Split(v, ",")...))
		}
	}
	return out
}

// AnyValueWhereEmpty has tags without a value mean any value.
func AnyValueWhereEmpty(tags map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range tags {
		if v == "" {
			v = "*"
		}
		out[k] = v
	}
	return out
}

func EC2Tags(m map[string]string) []types.Tag {
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, types.Tag{Key: sdk.String(k), Value: sdk.String(m[k])})
	}
	return out
}

// SelectorKey is the text of a selector, as a key.
func SelectorKey(terms any) string {
	b, err := json.Marshal(terms)
	if err != nil {
		return fmt.Sprint(terms) // of plain fields: it can't fail
	}
	return string(b)
}

func SortByKey[T any](list []T, key func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

func Deref[T any](p *T) T {
	var none T
	if p == nil {
		return none
	}
	return *p
}
