// What the published command line asks of a machine that it has reached: `machines part tunnel` and `traces get-remote`.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	robotpb "go.viam.com/api/robot/v1"
	shellpb "go.viam.com/api/service/shell/v1"
	"go.viam.com/utils/rpc"
)

// tunnel sends a text through the machine to one of its ports, once the machine has said that it may.
func tunnel(ctx context.Context, conn rpc.ClientConn, port uint32, text string) (string, error) {
	robot := robotpb.NewRobotServiceClient(conn)
	listed, err := robot.ListTunnels(ctx, &robotpb.ListTunnelsRequest{})
	if err != nil {
		return "", err
	}
	allowed := false
	for _, one := range listed.Tunnels {
		allowed = allowed || one.Port == port
	}
	if !allowed {
		return "", fmt.Errorf("port %d is not among the %d of the machine", port, len(listed.Tunnels))
	}
	stream, err := robot.Tunnel(ctx)
	if err != nil {
		return "", err
	}
	// The first message names the port and may have no data.
	if err := stream.Send(&robotpb.TunnelRequest{DestinationPort: port}); err != nil {
		return "", err
	}
	if err := stream.Send(&robotpb.TunnelRequest{DestinationPort: port, Data: []byte(text)}); err != nil {
		return "", err
	}
	if err := stream.CloseSend(); err != nil {
		return "", err
	}
	var back strings.Builder
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return back.String(), nil
		}
		if err != nil {
			return back.String(), err
		}
		back.Write(answer.Data)
	}
}

// fetch copies files from the machine; it gives their contents by their names.
func fetch(ctx context.Context, conn rpc.ClientConn, shell, path string) (map[string][]byte, error) {
	stream, err := shellpb.NewShellServiceClient(conn).CopyFilesFromMachine(ctx)
	if err != nil {
		return nil, err
	}
	begin := &shellpb.CopyFilesFromMachineRequestMetadata{Name: shell, Paths: []string{path}, AllowRecursion: true}
	request := &shellpb.CopyFilesFromMachineRequest{
		Request: &shellpb.CopyFilesFromMachineRequest_Metadata{Metadata: begin},
	}
	if err := stream.Send(request); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	// The first message of a file names it; those that continue or end it do not.
	name := ""
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return files, err
		}
		data := answer.GetFileData()
		if data == nil {
			continue
		}
		if data.Name != "" {
			name = data.Name
		}
		if !data.IsDir {
			files[name] = append(files[name], data.Data...)
		}
		if !data.Eof {
			continue
		}
		ack := &shellpb.CopyFilesFromMachineRequest{
			Request: &shellpb.CopyFilesFromMachineRequest_AckLastFile{AckLastFile: true},
		}
		if err := stream.Send(ack); err != nil {
			return files, err
		}
	}
}

// records counts what is in a file of traces.
func records(file []byte) (int, error) {
	count := 0
	for ; len(file) > 0; count++ {
		if len(file) < 4 || uint64(len(file)-4) < uint64(binary.LittleEndian.Uint32(file)) {
			return count, fmt.Errorf("record %d is cut short", count)
		}
		file = file[4+binary.LittleEndian.Uint32(file):]
	}
	return count, nil
}

// commands plays the command line's part.
func commands(ctx context.Context, conn rpc.ClientConn, part string, port uint32, found *seen) error {
	var err error
	if found.Tunneled, err = tunnel(ctx, conn, port, "through the machine"); err != nil {
		return fmt.Errorf("tunnel: %w", err)
	}
	folder, err := fetch(ctx, conn, "shell", "~/.viam/trace/"+part)
	if err != nil {
		return fmt.Errorf("traces get-remote: %w", err)
	}
	for name := range folder {
		found.TraceFiles = append(found.TraceFiles, name)
	}
	one, err := fetch(ctx, conn, "shell", "~/.viam/trace/"+part+"/traces")
	if err != nil {
		return fmt.Errorf("traces print-remote: %w", err)
	}
	if found.Traces, err = records(one["traces"]); err != nil {
		return fmt.Errorf("traces print-remote: %w", err)
	}
	diagnostics, err := fetch(ctx, conn, "shell", "~/.viam/diagnostics.data/"+part)
	found.Captures = len(diagnostics)
	return err
}
