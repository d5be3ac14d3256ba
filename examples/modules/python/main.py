"""A module in Python, with the published library: a sensor, a motor, and a service that works with resources of its
machine, which may be those of another module."""

import asyncio
from typing import Any, ClassVar, Mapping, Optional

from viam.components.motor import Motor
from viam.components.sensor import Sensor
from viam.module.module import Module
from viam.resource.easy_resource import EasyResource, stub_model
from viam.services.generic import Generic
from viam.utils import struct_to_dict


class Thermometer(Sensor, EasyResource):
    MODEL: ClassVar[str] = "example:cellar:thermometer"

    @classmethod
    def new(cls, config, dependencies):
        self = super().new(config, dependencies)
        self.celsius = struct_to_dict(config.attributes).get("celsius", 12)
        return self

    async def get_readings(self, *, extra=None, timeout=None, **kwargs) -> Mapping[str, Any]:
        return {"celsius": self.celsius}


@stub_model
class Fan(Motor, EasyResource):
    MODEL: ClassVar[str] = "example:cellar:fan"
    power = 0.0

    async def set_power(self, power: float, *, extra=None, timeout=None, **kwargs):
        self.power = power

    async def is_powered(self, *, extra=None, timeout=None, **kwargs):
        return self.power != 0, self.power

    async def is_moving(self):
        return self.power != 0

    async def stop(self, *, extra=None, timeout=None, **kwargs):
        self.power = 0.0


class Climate(Generic, EasyResource):
    """Turns a motor on while a sensor is too warm."""

    MODEL: ClassVar[str] = "example:cellar:climate"

    @classmethod
    def validate_config(cls, config):
        attributes = struct_to_dict(config.attributes)
        missing = [name for name in ("thermometer", "fan") if name not in attributes]
        if missing:
            raise ValueError(f"missing required field {missing[0]}, wanted the name of a resource")
        return [attributes["thermometer"], attributes["fan"]], []

    @classmethod
    def new(cls, config, dependencies):
        self = super().new(config, dependencies)
        attributes = struct_to_dict(config.attributes)
        self.too_warm = attributes.get("too_warm", 25)
        self.thermometer = dependencies[Sensor.get_resource_name(attributes["thermometer"])]
        self.fan = dependencies[Motor.get_resource_name(attributes["fan"])]
        return self

    async def do_command(self, command: Mapping[str, Any], *, timeout: Optional[float] = None, **kwargs):
        celsius = (await self.thermometer.get_readings())["celsius"]
        is_warm = celsius >= self.too_warm
        await self.fan.set_power(0.5 if is_warm else 0)
        return {"celsius": celsius, "fan": is_warm}


if __name__ == "__main__":
    asyncio.run(Module.run_from_registry())
