"""A module written with the published Python library: a sensor whose readings say how it was built."""

import asyncio
import os
import sys
from typing import Any, ClassVar, Mapping, Optional, Sequence, Tuple

from viam.components.sensor import Sensor
from viam.module.module import Module
from viam.proto.app.robot import ComponentConfig
from viam.proto.common import ResourceName
from viam.resource.base import ResourceBase
from viam.resource.easy_resource import EasyResource
from viam.utils import struct_to_dict


class Thermometer(Sensor, EasyResource):
    MODEL: ClassVar[str] = "acme:test:thermometer"

    @classmethod
    def validate_config(cls, config: ComponentConfig) -> Tuple[Sequence[str], Sequence[str]]:
        attributes = struct_to_dict(config.attributes)
        if "refuse" in attributes:
            raise ValueError(f"refused: {attributes['refuse']}")
        return attributes.get("uses", []), attributes.get("may_use", [])

    @classmethod
    def new(cls, config: ComponentConfig, dependencies: Mapping[ResourceName, ResourceBase]) -> "Thermometer":
        self = super().new(config, dependencies)
        self.attributes = struct_to_dict(config.attributes)
        self.others = {name.name: one for name, one in dependencies.items()}
        self.logger.info(f"built {config.name}")
        return self

    async def get_readings(
        self, *, extra: Optional[Mapping[str, Any]] = None, timeout: Optional[float] = None, **kwargs
    ) -> Mapping[str, Any]:
        readings = {"degrees": self.attributes.get("degrees", 20), "pid": os.getpid()}
        for name, other in self.others.items():
            if isinstance(other, Sensor):
                readings[name] = dict(await other.get_readings())
        return readings

    async def do_command(self, command, *, timeout: Optional[float] = None, **kwargs):
        if "environment" in command:
            return {"environment": {name: os.environ.get(name, "") for name in command["environment"]}}
        if "print" in command:
            print(command["print"], flush=True)
            print(command["print"], file=sys.stderr, flush=True)
        return {"arguments": sys.argv[1:], "folder": os.getcwd()}

    async def close(self):
        self.logger.info(f"closed {self.name}")


if __name__ == "__main__":
    asyncio.run(Module.run_from_registry())
