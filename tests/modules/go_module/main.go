// A module in Go that keeps to what modules of the published Go library do towards their machine: how it takes its
// arguments, listens, answers Ready, dials its machine, refreshes what it knows of it, adds, refuses, removes and logs,
// and how it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	commonpb "go.viam.com/api/common/v1"
	sensorpb "go.viam.com/api/component/sensor/v1"
	modulepb "go.viam.com/api/module/v1"
	robotpb "go.viam.com/api/robot/v1"
	streampb "go.viam.com/api/stream/v1"
	"go.viam.com/utils"
	echopb "go.viam.com/utils/proto/rpc/examples/echoresource/v1"
	"go.viam.com/utils/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	sensorAPI  = "rdk:component:sensor"
	gaugeModel = "acme:go:gauge"
	echoAPI    = "acme:component:echo"
	echoModel  = "acme:go:echo"
	// What many modules name beside their true dependencies.
	frameSystem = "rdk:service:framesystem/$framesystem"
)

var tcpAddress = regexp.MustCompile(`:\d+$`)

type gauge struct {
	machineSensor string
	step          float64
}

type module struct {
	modulepb.UnimplementedModuleServiceServer
	robotpb.UnimplementedRobotServiceServer
	streampb.UnimplementedStreamServiceServer
	sensorpb.UnimplementedSensorServiceServer
	echopb.UnimplementedEchoResourceServiceServer

	logger *zap.SugaredLogger
	mu     sync.Mutex
	parent rpc.ClientConn
	// Closed once it is certain that there is no WebRTC between module and machine.
	skipsWebRTC chan struct{}
	gauges      map[string]gauge
	echoes      map[string]bool
	diary       []string
}

func main() {
	utils.ContextualMain(serve, zap.Must(zap.NewDevelopment()).Sugar())
}

func serve(ctx context.Context, args []string, logger *zap.SugaredLogger) error {
	if len(args) < 2 {
		return errors.New("need socket path as command line argument")
	}
	m := &module{
		logger:      logger,
		skipsWebRTC: make(chan struct{}),
		gauges:      map[string]gauge{},
		echoes:      map[string]bool{},
	}
	m.note("arguments", strings.Join(args[2:], " "))
	server := grpc.NewServer(grpc.MaxRecvMsgSize(rpc.MaxMessageSize))
	modulepb.RegisterModuleServiceServer(server, m)
	robotpb.RegisterRobotServiceServer(server, m)
	streampb.RegisterStreamServiceServer(server, m)
	sensorpb.RegisterSensorServiceServer(server, m)
	echopb.RegisterEchoResourceServiceServer(server, m)
	reflection.Register(server)
	address := args[1]
	network := "unix"
	if tcpAddress.MatchString(address) {
		network = "tcp"
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o776); err != nil {
			return err
		}
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	<-ctx.Done()
	fmt.Println("Shutting down gracefully.")
	if m.parent != nil {
		_ = m.parent.Close()
	}
	// Waits for every call and for every connection to be closed by its other end.
	server.GracefulStop()
	fmt.Println("has shut down")
	return <-done
}

func (m *module) note(words ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.diary = append(m.diary, strings.TrimSpace(strings.Join(words, " ")))
}

func (m *module) Ready(ctx context.Context, req *modulepb.ReadyRequest) (*modulepb.ReadyResponse, error) {
	m.note("ready")
	if req.WebrtcOffer != "" {
		return nil, errors.New("this module takes no offer of WebRTC")
	}
	if m.parent == nil {
		close(m.skipsWebRTC)
		if err := m.connect(ctx, req.GetParentAddress()); err != nil {
			return nil, err
		}
	}
	handler := func(api, service, model string) *modulepb.HandlerDefinition {
		parts := strings.Split(api, ":")
		name := &commonpb.ResourceName{Namespace: parts[0], Type: parts[1], Subtype: parts[2]}
		return &modulepb.HandlerDefinition{
			Subtype: &robotpb.ResourceRPCSubtype{Subtype: name, ProtoService: service},
			Models:  []string{model},
		}
	}
	return &modulepb.ReadyResponse{Ready: true, Handlermap: &modulepb.HandlerMap{
		Handlers: []*modulepb.HandlerDefinition{
			handler(sensorAPI, sensorpb.SensorService_ServiceDesc.ServiceName, gaugeModel),
			handler(echoAPI, echopb.EchoResourceService_ServiceDesc.ServiceName, echoModel),
		},
	}}, nil
}

// connect dials the machine, which must be able to answer before this module is ready.
func (m *module) connect(ctx context.Context, address string) error {
	full := address
	if !tcpAddress.MatchString(address) {
		if _, err := os.Stat(address); err != nil {
			return err
		}
		full = "unix://" + address
	}
	conn, err := rpc.Dial(ctx, full, m.logger, rpc.WithForceDirectGRPC(), rpc.WithInsecure())
	if err != nil {
		return err
	}
	m.parent = conn
	if _, err := m.refresh(ctx); err != nil {
		return fmt.Errorf("the machine cannot be asked: %w", err)
	}
	return nil
}

// refresh asks for the machine's resources, and has it describe the service of each of its APIs.
func (m *module) refresh(ctx context.Context) (map[string]bool, error) {
	robot := robotpb.NewRobotServiceClient(m.parent)
	answer, err := robot.ResourceNames(ctx, &robotpb.ResourceNamesRequest{})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, name := range answer.Resources {
		names[fmt.Sprintf("%s:%s:%s/%s", name.Namespace, name.Type, name.Subtype, name.Name)] = true
	}
	types, err := robot.ResourceRPCSubtypes(ctx, &robotpb.ResourceRPCSubtypesRequest{})
	if err != nil {
		return nil, err
	}
	stream, err := reflectpb.NewServerReflectionClient(m.parent).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range types.ResourceRpcSubtypes {
		question := &reflectpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: one.ProtoService}
		if err := stream.Send(&reflectpb.ServerReflectionRequest{MessageRequest: question}); err != nil {
			return nil, err
		}
		described, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if described.GetFileDescriptorResponse() == nil {
			return nil, fmt.Errorf("%s is not described: %v", one.ProtoService, described.GetErrorResponse())
		}
	}
	return names, stream.CloseSend()
}

func (m *module) ValidateConfig(
	_ context.Context, req *modulepb.ValidateConfigRequest,
) (*modulepb.ValidateConfigResponse, error) {
	m.note("validate", req.Config.Name)
	attributes := req.Config.Attributes.AsMap()
	if reason, ok := attributes["refuse"].(string); ok {
		return nil, fmt.Errorf("error validating resource: %s", reason)
	}
	if uses, ok := attributes["uses"].(string); ok {
		return &modulepb.ValidateConfigResponse{Dependencies: []string{uses, frameSystem}}, nil
	}
	return &modulepb.ValidateConfigResponse{}, nil
}

func (m *module) AddResource(
	ctx context.Context, req *modulepb.AddResourceRequest,
) (*modulepb.AddResourceResponse, error) {
	select {
	case <-m.skipsWebRTC:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	config := req.Config
	if !strings.HasPrefix(config.Api, config.Namespace+":") || !strings.HasSuffix(config.Api, ":"+config.Type) {
		return nil, fmt.Errorf("API %q is not of %s and %s", config.Api, config.Namespace, config.Type)
	}
	m.note(append([]string{"add", config.Name}, req.Dependencies...)...)
	step, _ := config.Attributes.AsMap()["step"].(float64)
	built := gauge{step: step}
	for _, dependency := range req.Dependencies {
		names, err := m.refresh(ctx)
		if err != nil {
			return nil, err
		}
		if !names[dependency] {
			return nil, fmt.Errorf("resource %q not found", dependency)
		}
		built.machineSensor = dependency[strings.LastIndex(dependency, "/")+1:]
	}
	if err := m.log(ctx, "built "+config.Name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.gauges[config.Name]; there || m.echoes[config.Name] {
		return nil, fmt.Errorf("resource %q is there already", config.Name)
	}
	switch config.Model {
	case gaugeModel:
		m.gauges[config.Name] = built
	case echoModel:
		m.echoes[config.Name] = true
	default:
		return nil, fmt.Errorf("resource with API %q and model %q not yet registered", config.Api, config.Model)
	}
	return &modulepb.AddResourceResponse{}, nil
}

func (m *module) RemoveResource(
	_ context.Context, req *modulepb.RemoveResourceRequest,
) (*modulepb.RemoveResourceResponse, error) {
	m.note("remove", req.Name)
	m.mu.Lock()
	defer m.mu.Unlock()
	name := req.Name[strings.LastIndex(req.Name, "/")+1:]
	if _, there := m.gauges[name]; !there && !m.echoes[name] {
		return nil, fmt.Errorf("resource %q not found", req.Name)
	}
	delete(m.gauges, name)
	delete(m.echoes, name)
	return &modulepb.RemoveResourceResponse{}, nil
}

// log writes to the machine's log, in the form of the library's log entries.
func (m *module) log(ctx context.Context, message string) error {
	field := map[string]any{"Key": "steps", "Type": 11, "Integer": 3, "String": "", "Interface": nil}
	fields, err := structpb.NewStruct(field)
	if err != nil {
		return err
	}
	caller, err := structpb.NewStruct(map[string]any{
		"Defined": true, "PC": 1, "File": "gauge/gauge.go", "Line": 12, "Function": "gauge.build",
	})
	if err != nil {
		return err
	}
	entry := &commonpb.LogEntry{
		Level:      "warn",
		Time:       timestamppb.New(time.Now()),
		LoggerName: os.Getenv("VIAM_MODULE_NAME") + ".gauge",
		Message:    message,
		Caller:     caller,
		Fields:     []*structpb.Struct{fields},
	}
	_, err = robotpb.NewRobotServiceClient(m.parent).Log(ctx, &robotpb.LogRequest{Logs: []*commonpb.LogEntry{entry}})
	return err
}

func (m *module) GetReadings(
	ctx context.Context, req *commonpb.GetReadingsRequest,
) (*commonpb.GetReadingsResponse, error) {
	m.mu.Lock()
	built, there := m.gauges[req.Name]
	diary := []any{}
	for _, line := range m.diary {
		diary = append(diary, line)
	}
	m.mu.Unlock()
	if !there {
		return nil, fmt.Errorf("resource %q not found", req.Name)
	}
	readings := map[string]any{"step": built.step, "pid": float64(os.Getpid()), "diary": diary}
	if built.machineSensor != "" {
		request := &commonpb.GetReadingsRequest{Name: built.machineSensor}
		answer, err := sensorpb.NewSensorServiceClient(m.parent).GetReadings(ctx, request)
		if err != nil {
			return nil, err
		}
		for name, value := range answer.Readings {
			readings["machine_"+name] = value.AsInterface()
		}
	}
	fields, err := structpb.NewStruct(readings)
	if err != nil {
		return nil, err
	}
	return &commonpb.GetReadingsResponse{Readings: fields.Fields}, nil
}

func (m *module) EchoResource(
	_ context.Context, req *echopb.EchoResourceRequest,
) (*echopb.EchoResourceResponse, error) {
	return &echopb.EchoResourceResponse{Message: req.Name + " says " + req.Message}, nil
}

func (m *module) EchoResourceMultiple(
	req *echopb.EchoResourceMultipleRequest, stream echopb.EchoResourceService_EchoResourceMultipleServer,
) error {
	for _, letter := range req.Message {
		if err := stream.Send(&echopb.EchoResourceMultipleResponse{Message: string(letter)}); err != nil {
			return err
		}
	}
	return nil
}

func (m *module) EchoResourceBiDi(stream echopb.EchoResourceService_EchoResourceBiDiServer) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&echopb.EchoResourceBiDiResponse{Message: request.Message}); err != nil {
			return err
		}
	}
}
