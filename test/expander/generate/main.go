// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command generate writes the Go code of protocols with the generators of protobuf and gRPC, without protoc: run it by
// go generate in test/expander.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		for _, file := range []string{"expanderpb/expander.proto", "../../internal/cloud/externalgrpc/protocol/externalgrpc.proto"} {
			if err := run(plugin, filepath.Dir(file), filepath.Base(file)); err != nil {
				fmt.Fprintln(os.Stderr, "generate:", err)
				os.Exit(1)
			}
		}
	}
}

// run has a plugin write what it makes of a file in a directory beside that.
func run(plugin, dir, file string) error {
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}), SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return err
	}
	parameter := "paths=source_relative"
	var needed []*descriptorpb.FileDescriptorProto // imports first
	imports := files[0].Imports()
	for i := range imports.Len() {
		needed = append(needed, protodesc.ToFileDescriptorProto(imports.Get(i)))
	}
	in, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file}, Parameter: &parameter,
		ProtoFile: append(needed, protodesc.ToFileDescriptorProto(files[0]))})
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	var out pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(text, &out); err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	if out.Error != nil {
		return fmt.Errorf("%s: %s", plugin, *out.Error)
	}
	for _, f := range out.File {
		if err := os.WriteFile(filepath.Join(dir, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
