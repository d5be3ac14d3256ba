//! Dials a machine with the published Rust client, which the C++ and Python clients use, too, and prints what it saw as
//! JSON.
//!
//! Use: rust_dial URI SIGNALING|- KEY_ID|- KEY|- webrtc|direct

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::ProstCodec;
use tonic::Request;
use viam_rust_utils::rpc::dial::{DialOptions, RPCCredentials, ViamChannel};

type Failure = Box<dyn std::error::Error>;

#[derive(Clone, PartialEq, Message)]
struct Empty {}

#[derive(Clone, PartialEq, Message)]
struct ResourceName {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    subtype: String,
    #[prost(string, tag = "4")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceNames {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceName>,
}

#[derive(Clone, PartialEq, Message)]
struct GoFor {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(double, tag = "2")]
    rpm: f64,
    #[prost(double, tag = "3")]
    revolutions: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Position {
    #[prost(double, tag = "1")]
    position: f64,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionRequest {
    #[prost(string, tag = "7")]
    list_services: String,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionResponse {
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    service: Vec<Named>,
}

async fn dial(arguments: &[String]) -> Result<ViamChannel, Failure> {
    let [uri, signaling, key_id, key, way] = arguments else {
        return Err("wanted URI SIGNALING|- KEY_ID|- KEY|- webrtc|direct".into());
    };
    let wanted = DialOptions::builder().uri(uri);
    // The builder has another type with credentials than without.
    macro_rules! connect {
        ($builder:expr) => {{
            let mut builder = $builder.disable_mdns();
            if way == "direct" {
                builder = builder.disable_webrtc();
            }
            if signaling != "-" {
                builder = builder.signaling_server(signaling.clone());
            }
            builder.connect().await?
        }};
    }
    if key == "-" {
        return Ok(connect!(wanted.without_credentials().insecure()));
    }
    let credentials = RPCCredentials::new(Some(key_id.clone()), "api-key".to_string(), key.clone());
    Ok(connect!(wanted.with_credentials(credentials).allow_downgrade()))
}

async fn call<A, B>(channel: &ViamChannel, path: &'static str, request: A) -> Result<B, Failure>
where
    A: Message + Default + 'static,
    B: Message + Default + 'static,
{
    let mut client = Grpc::new(channel.clone());
    client.ready().await?;
    let answer = client
        .unary(Request::new(request), PathAndQuery::from_static(path), ProstCodec::<A, B>::default())
        .await?;
    Ok(answer.into_inner())
}

/// The number of services, by a stream in both directions.
async fn services(channel: &ViamChannel) -> Result<usize, Failure> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await?;
    let asked = tokio_stream::iter([ReflectionRequest { list_services: "*".to_string() }]);
    let path = PathAndQuery::from_static("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
    let codec = ProstCodec::<ReflectionRequest, ReflectionResponse>::default();
    let mut answers = client.streaming(Request::new(asked), path, codec).await?.into_inner();
    let answer = answers.message().await?.ok_or("the stream ended without an answer")?;
    Ok(answer.services.map_or(0, |all| all.service.len()))
}

async fn play(arguments: &[String]) -> Result<String, Failure> {
    let channel = dial(arguments).await?;
    let all: ResourceNames =
        call(&channel, "/viam.robot.v1.RobotService/ResourceNames", Empty {}).await?;
    let go = GoFor { name: "wheel".to_string(), rpm: 100.0, revolutions: 0.5 };
    let _: Empty = call(&channel, "/viam.component.motor.v1.MotorService/GoFor", go).await?;
    let motor = Named { name: "wheel".to_string() };
    let moved: Position =
        call(&channel, "/viam.component.motor.v1.MotorService/GetPosition", motor).await?;
    let unknown = Named { name: "nobody".to_string() };
    let refused = match call::<Named, Position>(
        &channel,
        "/viam.component.motor.v1.MotorService/GetPosition",
        unknown,
    )
    .await
    {
        Ok(_) => "nothing".to_string(),
        Err(error) => error.downcast::<tonic::Status>().map_or_else(
            |other| other.to_string(),
            |status| format!("{:?}", status.code()),
        ),
    };
    let mut names: Vec<String> = all.resources.iter().map(|one| format!("{:?}", one.name)).collect();
    names.sort();
    let way = match channel {
        ViamChannel::WebRTC(_) => "webrtc",
        _ => "direct",
    };
    Ok(format!(
        "{{\"way\": {way:?}, \"resources\": [{}], \"moved\": {}, \"refused\": {refused:?}, \"services\": {}}}",
        names.join(", "),
        moved.position,
        services(&channel).await?,
    ))
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = tokio::time::timeout(Duration::from_secs(60), play(&arguments)).await;
    match outcome {
        Ok(Ok(text)) => println!("{text}"),
        Ok(Err(error)) => println!("{{\"failed\": {:?}}}", error.to_string()),
        Err(_) => println!("{{\"failed\": \"no answer within 60 s\"}}"),
    }
}
