// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Reads node classes, one JSON object a line, and answers Karpenter's hash of each. It is built by the oracle's tests beside
// Karpenter's own pkg/apis, which they unpack into a copy of this folder.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

func main() {
	fmt.Println(v1.EC2NodeClassHashVersion)
	in := json.NewDecoder(os.Stdin)
	for in.More() {
		var q struct {
			Class    v1.EC2NodeClass
			CABundle *string
		}
		if err := in.Decode(&q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(q.Class.Hash(q.CABundle))
	}
}
