"""Dials a machine by a name that only multicast DNS knows, as the published Python SDK does by itself."""

import asyncio
import sys

from viam.robot.client import RobotClient
from viam.rpc.dial import DialOptions


ATTEMPTS = 5


async def dial(name: str) -> RobotClient:
    """The SDK listens for a second and a half: on a busy computer that may be too short."""
    options = RobotClient.Options(dial_options=DialOptions(insecure=True, timeout=20))
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await RobotClient.at_address(name, options)
        except Exception:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


async def main(name: str) -> None:
    robot = await dial(name)
    print(" ".join(sorted(one.name for one in robot.resource_names)))
    await robot.close()


asyncio.run(main(sys.argv[1]))
