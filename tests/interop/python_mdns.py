"""Dials a machine by a name that only multicast DNS knows, as the published Python SDK does by itself."""

import asyncio
import sys

from viam.robot.client import RobotClient
from viam.rpc.dial import DialOptions


async def main(name: str) -> None:
    options = RobotClient.Options(dial_options=DialOptions(insecure=True, timeout=20))
    robot = await RobotClient.at_address(name, options)
    print(" ".join(sorted(one.name for one in robot.resource_names)))
    await robot.close()


asyncio.run(main(sys.argv[1]))
