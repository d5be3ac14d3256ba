// Dials a machine with the published Go client, as its flags say: over WebRTC alone, or as a program that gives no
// option at all. Prints what it saw as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
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
	OverWebRTC bool     `json:"overWebRTC"`
}

func main() {
	host := flag.String("host", "", "whom to dial")
	signaling := flag.String("signaling", "", "the signaling server; the host itself where left out")
	downgrade := flag.Bool("downgrade", false, "try TLS first and go on without, with the key, where a port has none")
	external := flag.Bool("external", false, "exchange the key at the signaling server for a token of the machine")
	keyID := flag.String("key-id", "", "")
	key := flag.String("key", "", "")
	part := flag.String("part", "", "play the commands of the published command line for this part, too")
	port := flag.Uint("port", 0, "a port that the machine lets callers reach")
	plain := flag.Bool("plain", false, "dial as client.New(ctx, host, logger) does; with a key, as it does with one")
	byName := flag.String("by-name", "", "dial the host as the published command line does, with this server for its key")
	direct := flag.Bool("direct", false, "with -plain: without WebRTC")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	also := func(conn rpc.ClientConn, found *seen) error {
		if *part == "" {
			return nil
		}
		return commands(ctx, conn, *part, uint32(*port), found)
	}
	chosen := options(*host, *signaling, !*downgrade, *external, *keyID, *key)
	if *plain {
		chosen = plainOptions(*direct, *keyID, *key)
	}
	if *byName != "" {
		chosen = byNameOptions(*byName, *host, !*downgrade, *keyID, *key)
	}
	found, err := dial(ctx, *host, chosen, *plain || *byName != "", also)
	if err != nil {
		found.Refused = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func options(host, signaling string, insecure, external bool, keyID, key string) []rpc.DialOption {
	creds := rpc.Credentials{Type: "api-key", Payload: key}
	all := []rpc.DialOption{
		rpc.WithDisableDirectGRPC(),
		rpc.WithDialMulticastDNSOptions(rpc.DialMulticastDNSOptions{Disable: true}),
	}
	if insecure {
		all = append(all, rpc.WithInsecure())
	} else {
		all = append(all, rpc.WithAllowInsecureWithCredentialsDowngrade())
	}
	if keyID != "" {
		all = append(all, rpc.WithEntityCredentials(keyID, creds))
	}
	if signaling == "" {
		return all
	}
	webrtc := rpc.DialWebRTCOptions{SignalingServerAddress: signaling, SignalingInsecure: insecure}
	if keyID != "" {
		webrtc.SignalingAuthEntity = keyID
		webrtc.SignalingCreds = creds
	}
	if external {
		webrtc.SignalingExternalAuthAddress = signaling
		webrtc.SignalingExternalAuthToEntity = host
		webrtc.SignalingExternalAuthInsecure = insecure
		all = append(all, rpc.WithExternalAuth(signaling, host))
		if insecure {
			all = append(all, rpc.WithExternalAuthInsecure())
		}
	}
	return append(all, rpc.WithWebRTCOptions(webrtc))
}

// byNameOptions are those of the published command line: the name alone, by multicast DNS and at its signaling server.
func byNameOptions(server, host string, insecure bool, keyID, key string) []rpc.DialOption {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	all := []rpc.DialOption{
		rpc.WithExternalAuth(server, name),
		rpc.WithEntityCredentials(keyID, rpc.Credentials{Type: "api-key", Payload: key}),
		rpc.WithAllowInsecureWithCredentialsDowngrade(),
	}
	if insecure {
		return append(all, rpc.WithInsecure(), rpc.WithExternalAuthInsecure())
	}
	return all
}

// plainOptions are those that the published runtime's client adds of itself: TLS where the port has it, else none.
func plainOptions(direct bool, keyID, key string) []rpc.DialOption {
	all := []rpc.DialOption{rpc.WithAllowInsecureDowngrade()}
	if direct {
		all = append(all, rpc.WithForceDirectGRPC())
	}
	if keyID != "" {
		all = append(all, rpc.WithEntityCredentials(keyID, rpc.Credentials{Type: "api-key", Payload: key}))
	}
	return all
}

func dial(
	ctx context.Context, host string, options []rpc.DialOption, anyway bool,
	also func(rpc.ClientConn, *seen) error,
) (seen, error) {
	var found seen
	conn, err := rpc.Dial(ctx, host, nil, options...)
	if err != nil {
		return found, err
	}
	defer conn.Close()
	found.OverWebRTC = conn.PeerConn() != nil
	if !anyway && !found.OverWebRTC {
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
