// Dials a machine with the published Go client, over WebRTC alone, as its flags say; prints what it saw as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	motorpb "go.viam.com/api/component/motor/v1"
	robotpb "go.viam.com/api/robot/v1"
	"go.viam.com/utils/rpc"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
)

type seen struct {
	Resources []string `json:"resources"`
	Services  int      `json:"services"`
	Moved     float64  `json:"moved"`
	Refused   string   `json:"refused"`
	// Of `commands`.
	Tunneled   string   `json:"tunneled"`
	TraceFiles []string `json:"traceFiles"`
	Traces     int      `json:"traces"`
	Captures   int      `json:"captures"`
}

func main() {
	host := flag.String("host", "", "whom to dial")
	signaling := flag.String("signaling", "", "the signaling server; the host itself where left out")
	external := flag.Bool("external", false, "exchange the key at the signaling server for a token of the machine")
	keyID := flag.String("key-id", "", "")
	key := flag.String("key", "", "")
	part := flag.String("part", "", "play the commands of the published command line for this part, too")
	port := flag.Uint("port", 0, "a port that the machine lets callers reach")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	also := func(conn rpc.ClientConn, found *seen) error {
		if *part == "" {
			return nil
		}
		return commands(ctx, conn, *part, uint32(*port), found)
	}
	found, err := dial(ctx, *host, *signaling, *external, *keyID, *key, also)
	if err != nil {
		found.Refused = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func options(host, signaling string, external bool, keyID, key string) []rpc.DialOption {
	creds := rpc.Credentials{Type: "api-key", Payload: key}
	all := []rpc.DialOption{
		rpc.WithInsecure(),
		rpc.WithDisableDirectGRPC(),
		rpc.WithDialMulticastDNSOptions(rpc.DialMulticastDNSOptions{Disable: true}),
	}
	if keyID != "" {
		all = append(all, rpc.WithEntityCredentials(keyID, creds))
	}
	if signaling == "" {
		return all
	}
	webrtc := rpc.DialWebRTCOptions{SignalingServerAddress: signaling, SignalingInsecure: true}
	if keyID != "" {
		webrtc.SignalingAuthEntity = keyID
		webrtc.SignalingCreds = creds
	}
	if external {
		webrtc.SignalingExternalAuthAddress = signaling
		webrtc.SignalingExternalAuthToEntity = host
		webrtc.SignalingExternalAuthInsecure = true
		all = append(all, rpc.WithExternalAuth(signaling, host), rpc.WithExternalAuthInsecure())
	}
	return append(all, rpc.WithWebRTCOptions(webrtc))
}

func dial(
	ctx context.Context, host, signaling string, external bool, keyID, key string,
	also func(rpc.ClientConn, *seen) error,
) (seen, error) {
	var found seen
	conn, err := rpc.Dial(ctx, host, nil, options(host, signaling, external, keyID, key)...)
	if err != nil {
		return found, err
	}
	defer conn.Close()
	if conn.PeerConn() == nil {
		return found, fmt.Errorf("connected, but not over WebRTC")
	}
	names, err := robotpb.NewRobotServiceClient(conn).ResourceNames(ctx, &robotpb.ResourceNamesRequest{})
	if err != nil {
		return found, err
	}
	for _, name := range names.Resources {
		found.Resources = append(found.Resources, name.Name)
	}
	// As the published command line learns what a machine can do before it calls it.
	stream, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return found, err
	}
	list := &reflectpb.ServerReflectionRequest{
		MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{ListServices: ""},
	}
	if err := stream.Send(list); err != nil {
		return found, err
	}
	services, err := stream.Recv()
	if err != nil {
		return found, err
	}
	found.Services = len(services.GetListServicesResponse().GetService())
	motor := motorpb.NewMotorServiceClient(conn)
	before, err := motor.GetPosition(ctx, &motorpb.GetPositionRequest{Name: "wheel"})
	if err != nil {
		return found, err
	}
	if _, err := motor.GoFor(ctx, &motorpb.GoForRequest{Name: "wheel", Rpm: 90, Revolutions: 0.5}); err != nil {
		return found, err
	}
	position, err := motor.GetPosition(ctx, &motorpb.GetPositionRequest{Name: "wheel"})
	if err != nil {
		return found, err
	}
	found.Moved = position.Position - before.Position
	return found, also(conn, &found)
}
