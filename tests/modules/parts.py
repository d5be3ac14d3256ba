"""A module written with the published Python library: a motor, a camera, a service that turns a motor of the machine,
and a component of an API that no machine was built with, which has all four kinds of calls."""

import asyncio
from typing import Any, Mapping, Optional

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpclib.client import Channel
from grpclib.const import Cardinality, Handler
from viam.components.camera import Camera
from viam.components.component_base import ComponentBase
from viam.components.motor import Motor
from viam.media.video import CameraMimeType, NamedImage
from viam.module.module import Module
from viam.proto.common import ResponseMetadata
from viam.resource.easy_resource import EasyResource, stub_model
from viam.resource.registry import Registry, ResourceRegistration
from viam.resource.rpc_service_base import ResourceRPCServiceBase
from viam.resource.types import API
from viam.services.generic import Generic
from viam.utils import struct_to_dict

SERVICE = "acme.counter.v1.CounterService"
METHODS = {
    "One": Cardinality.UNARY_UNARY,
    "Out": Cardinality.UNARY_STREAM,
    "In": Cardinality.STREAM_UNARY,
    "Both": Cardinality.STREAM_STREAM,
}


def count_message():
    """The message of all calls, as generated code would have it."""
    file = descriptor_pb2.FileDescriptorProto(name="acme/counter.proto", package="acme.counter.v1", syntax="proto3")
    message = file.message_type.add(name="Count")
    field = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="name", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    message.field.add(name="count", number=2, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    service = file.service.add(name="CounterService")
    for name, kind in METHODS.items():
        service.method.add(
            name=name,
            input_type=".acme.counter.v1.Count",
            output_type=".acme.counter.v1.Count",
            client_streaming=kind.client_streaming,
            server_streaming=kind.server_streaming,
        )
    pool = descriptor_pool.Default()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("acme.counter.v1.Count"))


Count = count_message()


class Counter(ComponentBase):
    API = API("acme", "component", "counter")


class CounterService(ResourceRPCServiceBase):
    RESOURCE_TYPE = Counter

    async def call(self, stream):
        """Answers each request, and at its end a stream that wants one answer, with the number counted on."""
        total = 0
        many = stream._cardinality.client_streaming
        async for request in stream:
            counter = self.get_resource(request.name)
            total += request.count + counter.step
            if not many or stream._cardinality.server_streaming:
                for _ in range(2 if not many and stream._cardinality.server_streaming else 1):
                    await stream.send_message(Count(name=request.name, count=request.count + counter.step))
            if not many:
                return
        if not stream._cardinality.server_streaming:
            await stream.send_message(Count(count=total))

    def __mapping__(self):
        return {f"/{SERVICE}/{name}": Handler(self.call, kind, Count, Count) for name, kind in METHODS.items()}


class CounterClient(Counter):
    def __init__(self, name: str, channel: Channel):
        super().__init__(name)


Registry.register_api(ResourceRegistration(Counter, CounterService, CounterClient))


class AcmeCounter(Counter, EasyResource):
    MODEL = "acme:test:counter"

    @classmethod
    def new(cls, config, dependencies):
        self = super().new(config, dependencies)
        self.step = int(struct_to_dict(config.attributes).get("step", 1))
        return self


@stub_model
class AcmeMotor(Motor, EasyResource):
    MODEL = "acme:test:motor"
    power = 0.0

    async def set_power(self, power: float, *, extra=None, timeout=None, **kwargs):
        self.power = power

    async def is_powered(self, *, extra=None, timeout=None, **kwargs):
        return self.power != 0, self.power

    async def is_moving(self):
        return self.power != 0

    async def stop(self, *, extra=None, timeout=None, **kwargs):
        self.power = 0.0


@stub_model
class AcmeCamera(Camera, EasyResource):
    MODEL = "acme:test:camera"

    async def get_images(self, *, filter_source_names=None, extra=None, timeout=None, **kwargs):
        return [NamedImage("left", b"\xff\xd8\xff picture", CameraMimeType.JPEG)], ResponseMetadata()


class Turner(Generic, EasyResource):
    MODEL = "acme:test:turner"

    @classmethod
    def validate_config(cls, config):
        return [struct_to_dict(config.attributes)["motor"]], []

    @classmethod
    def new(cls, config, dependencies):
        self = super().new(config, dependencies)
        self.motor = dependencies[Motor.get_resource_name(struct_to_dict(config.attributes)["motor"])]
        return self

    async def do_command(self, command: Mapping[str, Any], *, timeout: Optional[float] = None, **kwargs):
        await self.motor.set_power(command["power"])
        on, power = await self.motor.is_powered()
        return {"on": on, "power": power}


if __name__ == "__main__":
    asyncio.run(Module.run_from_registry())
