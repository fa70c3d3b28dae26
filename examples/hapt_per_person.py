"""Activities from a smartphone's sensors: a model for each of 30 people, and one for a new person."""

from partita import SGD, fedavg, federate, fedper, hapt, har_convnet, natural, run


def main(rounds: int = 10) -> None:
    data = federate(hapt(), natural(test=0.25), newcomers=2)
    for method in (fedavg(optimizer=SGD(0.05)), fedper(epochs=1, optimizer=SGD(0.05))):
        kept = run(
            method,
            har_convnet,
            data,
            rounds=rounds,
            batching=32,
            folder=f"runs/{method.name}",
            baselines=False,
        )
        name, worst = min(kept.scores().items(), key=lambda item: item[1])
        mean = kept.score().macro
        print(f"{method.name}: {100 * mean:.1f} % in the mean over people; lowest for {name}, {100 * worst:.0f} %")
    person = data.names[0]
    labels, _ = kept.model(person).predict(data[0].test.stored[:3])
    print(f"person {person} was {', '.join(map(str, labels))}")


if __name__ == "__main__":
    main()
