"""A machine that a control plane has given its certificate and keys, with the published Python SDK: as somebody who
has a key, and as somebody who has not. Prints one JSON object of what it saw.

Use: managed_tour.py HOST:PORT KEY_ID KEY
"""

import asyncio
import json
import sys

from grpclib import GRPCError
from viam.components.motor import Motor
from viam.robot.client import RobotClient
from viam.rpc.dial import DialOptions


async def dial(address, key_id, key):
    dial = DialOptions.with_api_key(key, key_id)
    dial.disable_webrtc = True
    return await RobotClient.at_address(address, RobotClient.Options(dial_options=dial, refresh_interval=0))


async def main(address, key_id, key):
    seen = {}
    robot = await dial(address, key_id, key)
    motor = Motor.from_robot(robot, "m")
    await motor.set_power(0.25)
    seen["powered"] = list(await motor.is_powered())
    await robot.close()
    try:
        await dial(address, key_id, "wrong")
        seen["wrong"] = "let in"
    except GRPCError:
        seen["wrong"] = "refused"
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
