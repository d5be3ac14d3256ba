"""A tour of the training service with the published Python SDK; prints one JSON object of what it saw.

Use: training_tour.py HOST:PORT KEY_ID KEY ORGANIZATION DATASET SCRIPT
"""

import asyncio
import json
import sys

from grpclib import GRPCError
from viam.app.viam_client import ViamClient
from viam.proto.app.mltraining import ModelType, TrainingStatus
from viam.rpc.dial import DialOptions


IMAGE = "registry.example.com/team/trainer:1.0"


async def main(address, key_id, key, organization, dataset, script):
    options = DialOptions.with_api_key(key, key_id)
    options.insecure = True
    client = await ViamClient.create_from_dial_options(options, app_url=address)
    training = client.ml_training_client
    seen = {}

    def submit(version, tags=("cat", "dog")):
        kind = ModelType.MODEL_TYPE_SINGLE_LABEL_CLASSIFICATION
        return training.submit_training_job(organization, dataset, "pets-python", version, kind, list(tags))

    async def until(id, *wanted):
        while True:
            status = (await training.get_training_job(id)).status
            name = TrainingStatus.Name(status).removeprefix("TRAINING_STATUS_")
            if name in wanted:
                return name
            await asyncio.sleep(0.02)

    async def code_of(run):
        try:
            await run
            return 0
        except GRPCError as error:
            return error.status.value

    finished = await submit("finish")
    seen["finished"] = await until(finished, "COMPLETED", "FAILED")
    job = await training.get_training_job(finished)
    seen["job"] = {"modelVersion": job.model_version, "tags": list(job.tags), "isCustomJob": job.is_custom_job}
    canceled = await submit("wait")
    await training.cancel_training_job(canceled)
    seen["canceled"] = await until(canceled, "CANCELED", "COMPLETED")
    custom = await training.submit_custom_training_job(
        organization, dataset, script, "1.0.0", "own-python", "finish"
    )
    seen["custom"] = await until(custom, "COMPLETED")

    container = await training.register_custom_training_container(organization, IMAGE, "ours")
    found = await training.get_container(container)
    seen["container"] = [found.uri, found.description]
    seen["containers"] = [one.uri for one in await training.list_containers(organization)]
    job = await training.submit_custom_training_job(
        organization, dataset, script, "1.0.0", "contained-python", "finish", container_id=container
    )
    seen["contained"] = await until(job, "COMPLETED")
    await training.delete_completed_training_job(job)
    await training.delete_custom_training_container(container)
    seen["noContainer"] = await code_of(training.get_container(container))

    async def mine(status=None):
        jobs = await training.list_training_jobs(organization, status)
        return [job for job in jobs if job.model_name.endswith("-python")]

    seen["list"] = [job.model_version for job in await mine()]
    seen["completed"] = len(await mine(TrainingStatus.TRAINING_STATUS_COMPLETED))
    seen["again"] = await code_of(submit("finish"))
    seen["wrong"] = await code_of(submit("x", ("cat", "cow")))
    await training.delete_completed_training_job(finished)
    seen["gone"] = await code_of(training.get_training_job(finished))
    client.close()
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
