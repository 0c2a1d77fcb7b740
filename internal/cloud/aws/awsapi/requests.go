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

// NewFilter returns a filter of an EC2 Describe call: the named field is one of the values.
func NewFilter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// TagFilters returns filters for resources with all these tags, in the order of the keys. The value * matches any value,
// and a comma-separated value matches each of its parts.
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

// AnyValueWhereEmpty returns a copy of tags for TagFilters in which a tag with an empty value matches any value.
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

// EC2Tags returns tags in the format of EC2, sorted by key.
func EC2Tags(m map[string]string) []types.Tag {
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, types.Tag{Key: sdk.String(k), Value: sdk.String(m[k])})
	}
	return out
}

// SelectorKey returns a text for selector terms, for cache keys and messages. Equal terms have equal texts.
func SelectorKey(terms any) string {
	b, err := json.Marshal(terms)
	if err != nil {
		return fmt.Sprint(terms) // of plain fields: it can't fail
	}
	return string(b)
}

// SortByKey sorts a list by the key of each item.
func SortByKey[T any](list []T, key func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

// Deref returns the value of a pointer, the zero value for nil. The SDK uses pointers for optional values.
func Deref[T any](p *T) T {
	var none T
	if p == nil {
		return none
	}
	return *p
}
