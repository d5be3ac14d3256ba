// Dials a machine directly with gRPC for C++, as a client library does: the key for a token, the token with each call.
// Prints what it saw as JSON.
//
// Use: cpp_dial HOST KEY_ID|- KEY|-

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "auth.grpc.pb.h"
#include "board.grpc.pb.h"
#include "motor.grpc.pb.h"
#include "robot.grpc.pb.h"

namespace {

namespace auth = proto::rpc::v1;
namespace board = viam::component::board::v1;
namespace motor = viam::component::motor::v1;
namespace robot = viam::robot::v1;

constexpr int kTicks = 3;
constexpr std::chrono::seconds kPatience{60};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The metadata and the deadline of each call.
class Calls {
 public:
  explicit Calls(std::string token) : token_(std::move(token)) {}

  void Prepare(grpc::ClientContext* context) const {
    context->set_deadline(std::chrono::system_clock::now() + kPatience);
    context->AddMetadata("viam_client", "cpp;none;v0.0.0");
    if (!token_.empty()) context->AddMetadata("authorization", "Bearer " + token_);
  }

  template <typename Stub, typename Request, typename Response>
  grpc::Status Make(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) const {
    grpc::ClientContext context;
    Prepare(&context);
    return (stub.*method)(&context, request, response);
  }

 private:
  std::string token_;
};

void Require(const grpc::Status& status) {
  if (!status.ok()) throw Failure(std::to_string(status.error_code()));
}

std::string TokenFor(const std::shared_ptr<grpc::Channel>& channel, const std::string& key_id, const std::string& key) {
  if (key_id == "-") return "";
  auto stub = auth::AuthService::NewStub(channel);
  auth::AuthenticateRequest request;
  request.set_entity(key_id);
  request.mutable_credentials()->set_type("api-key");
  request.mutable_credentials()->set_payload(key);
  auth::AuthenticateResponse response;
  grpc::ClientContext context;
  Require(stub->Authenticate(&context, request, &response));
  return response.access_token();
}

// Reads a few ticks of a stream without end, and cancels it.
int ReadAndCancel(const std::shared_ptr<grpc::Channel>& channel, const Calls& calls) {
  auto stub = board::BoardService::NewStub(channel);
  board::StreamTicksRequest request;
  request.set_name("board");
  request.add_pin_names("button");
  grpc::ClientContext context;
  calls.Prepare(&context);
  auto stream = stub->StreamTicks(&context, request);
  board::StreamTicksResponse tick;
  int ticks = 0;
  while (ticks < kTicks && stream->Read(&tick)) {
    if (tick.pin_name() == "button") ticks++;
  }
  context.TryCancel();
  if (stream->Finish().error_code() != grpc::StatusCode::CANCELLED) throw Failure("the stream was not canceled");
  return ticks;
}

void Play(const std::string& host, const std::string& key_id, const std::string& key) {
  auto channel = grpc::CreateChannel(host, grpc::InsecureChannelCredentials());
  const Calls calls(TokenFor(channel, key_id, key));
  auto robots = robot::RobotService::NewStub(channel);
  auto motors = motor::MotorService::NewStub(channel);
  using Robots = robot::RobotService::Stub;
  using Motors = motor::MotorService::Stub;

  robot::ResourceNamesResponse all;
  Require(calls.Make<Robots>(*robots, &Robots::ResourceNames, robot::ResourceNamesRequest(), &all));
  std::vector<std::string> names;
  for (const auto& one : all.resources()) names.push_back(one.name());
  std::sort(names.begin(), names.end());

  motor::GoForRequest go;
  go.set_name("wheel");
  go.set_rpm(100);
  go.set_revolutions(0.5);
  motor::GoForResponse gone;
  Require(calls.Make<Motors>(*motors, &Motors::GoFor, go, &gone));
  motor::GetPositionRequest asked;
  motor::GetPositionResponse moved, none;
  asked.set_name("wheel");
  Require(calls.Make<Motors>(*motors, &Motors::GetPosition, asked, &moved));
  asked.set_name("nobody");
  const auto refused = calls.Make<Motors>(*motors, &Motors::GetPosition, asked, &none);

  const int ticks = ReadAndCancel(channel, calls);
  // The machine knows of the cancellation a moment later.
  long left = 1;
  while (left > 0) {
    robot::GetOperationsResponse operations;
    Require(calls.Make<Robots>(*robots, &Robots::GetOperations, robot::GetOperationsRequest(), &operations));
    left = std::count_if(operations.operations().begin(), operations.operations().end(), [](const auto& one) {
      return one.method().find("StreamTicks") != std::string::npos;
    });
  }

  std::cout << "{\"resources\": [";
  for (size_t i = 0; i < names.size(); i++) std::cout << (i > 0 ? ", " : "") << '"' << names[i] << '"';
  std::cout << "], \"moved\": " << moved.position() << ", \"refused\": \"" << refused.error_code() << "\", \"ticks\": "
            << ticks << ", \"left\": " << left << "}" << std::endl;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "Use: cpp_dial HOST KEY_ID|- KEY|-" << std::endl;
    return 2;
  }
  try {
    Play(arguments[1], arguments[2], arguments[3]);
  } catch (const Failure& failure) {
    std::cout << "{\"failed\": \"" << failure.what() << "\"}" << std::endl;
  }
}
