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

// NewFilter is a filter of an EC2 Describe call: the named field is one of the values.
func NewFilter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// TagFilters are filters for what bears all these tags, in the order of the keys. A value of * allows any value, and
// one with commas any of those between them.
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

// AnyValueWhereEmpty is a copy of tags in which a tag without a value allows any value, as TagFilters writes it.
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

// EC2Tags are tags as EC2 takes them, sorted by key.
func EC2Tags(m map[string]string) []types.Tag {
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, types.Tag{Key: sdk.String(k), Value: sdk.String(m[k])})
	}
	return out
}

// SelectorKey is the text of selector terms, to be used as the key of a cache and in messages. Equal terms have equal
// texts.
func SelectorKey(terms any) string {
	b, err := json.Marshal(terms)
	if err != nil {
		return fmt.Sprint(terms) // of plain fields: it can't fail
	}
	return string(b)
}

// SortByKey sorts a list by a text of each item.
func SortByKey[T any](list []T, key func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

// Deref is what a pointer points to, the zero value for nil. The SDK has pointers wherever something may be missing.
func Deref[T any](p *T) T {
	var none T
	if p == nil {
		return none
	}
	return *p
}
