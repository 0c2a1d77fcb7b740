// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

// labelTable interns the label keys used in the problem, and their values; value 0 means that the label is missing.
type labelTable struct {
	Ids        map[string]int // by key
	Keys       []string
	valueIDs   []map[string]int32 // by key number: numbers of values
	ValueNames [][]string         // by key number and value number
}

// addKey numbers a key, unless it has a number.
func (t *labelTable) addKey(key string) {
	if _, ok := t.Ids[key]; ok {
		return
	}
	if t.Ids == nil {
		t.Ids = map[string]int{}
	}
	t.Ids[key] = len(t.Keys)
	t.Keys = append(t.Keys, key)
	t.valueIDs = append(t.valueIDs, map[string]int32{})
	t.ValueNames = append(t.ValueNames, []string{""})
}

// internValue returns the number of a value of a key, and assigns one to a new value.
func (t *labelTable) internValue(key int, v string) int32 {
	id, ok := t.valueIDs[key][v]
	if !ok {
		id = int32(len(t.ValueNames[key]))
		t.valueIDs[key][v] = id
		t.ValueNames[key] = append(t.ValueNames[key], v)
	}
	return id
}

// OpenValue represents a label value of an in-flight node that is not certain yet.
const OpenValue = int32(-1)
