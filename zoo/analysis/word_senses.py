"""Sentences in which six words have two senses each.

The context that distinguishes the senses precedes the word, so that a decoder reads it too.
"""

SENSES: dict[str, dict[str, tuple[str, ...]]] = {
    "bank": {
        "money": (
            "after she lost her job she borrowed a little money from the bank and paid it back .",
            "the thieves knew how much cash was kept in the bank that night .",
            "he took his savings and opened an account with a small bank in the city .",
            "interest on the loan has to be paid to the bank every month .",
        ),
        "river": (
            "they pulled the boat out of the river and up the muddy bank before dark .",
            "the water rose until it flowed over the bank and into the fields .",
            "willows grew all along the stream , on its steep northern bank and in the shallows .",
            "the fisherman sat all day with his rod on the grassy bank near the old bridge .",
        ),
    },
    "bat": {
        "animal": (
            "out of the dark cave flew a small brown bat with wide wings .",
            "at dusk we watched an insect being caught in the air by a bat over the pond .",
            "of all mammals that hang upside down and sleep by day , the bat is the best known .",
            "the scientist held the tiny furry body and the folded wings of the bat in her glove .",
        ),
        "club": (
            "the player swung at the ball and broke his wooden bat on the first try .",
            "for his birthday the boy got a baseball glove and a new bat to practise with .",
            "when the pitcher threw , she hit the ball with the middle of the bat and ran .",
            "the cricketer walked off the field with his gloves and his bat under one arm .",
        ),
    },
    "spring": {
        "season": (
            "after a long and cold winter everyone looked forward to the spring and its flowers .",
            "the birds come back from the south each year in early spring to build their nests .",
            "snow melted , the days grew longer and at last it was spring again .",
            "the farmers sow their wheat in the autumn or in the spring of the next year .",
        ),
        "coil": (
            "the old mattress was so worn that a rusty metal spring came through the cloth .",
            "inside the clock a wheel is turned by a tightly wound spring made of steel .",
            "the weight was hung from a hook , which stretched the spring by an inch .",
            "the mechanic took the wheel off and replaced the broken spring under the car .",
        ),
    },
    "match": {
        "game": (
            "both teams trained hard for the final match of the football season .",
            "the crowd cheered when the home side won the match by two goals .",
            "she beat the champion in three sets in a long tennis match on grass .",
            "the referee blew his whistle and ended the match before the second half .",
        ),
        "fire": (
            "he wanted to light his pipe but he had only one match left .",
            "the room was dark , so she took out a box and struck a match on its side .",
            "the candle went out and she had to burn her fingers with another match to light it .",
            "the forest fire was started by a smoker who dropped a burning match on dry leaves .",
        ),
    },
    "plant": {
        "living": (
            "it needs water and sunlight , like any green plant in a garden .",
            "the roots and the leaves of this rare plant were eaten by goats .",
            "she put the seed in a pot of soil and soon a small plant grew out of it .",
            "the botanist had found a new flower , a climbing plant with red petals .",
        ),
        "factory": (
            "three hundred workers lost their jobs when the steel plant was closed .",
            "the company builds its cars and engines in a large plant outside the town .",
            "electricity comes from a nuclear power plant on the coast .",
            "smoke rose from the chimneys of the chemical plant all day and night .",
        ),
    },
    "light": {
        "lamp": (
            "it was dark in the room until someone turned on the light in the hall .",
            "the sun went down and there was not enough light left to read by .",
            "through the window of the house shone a bright yellow light from a lamp .",
            "her eyes were blinded by the flash and by the strong light of the sun .",
        ),
        "weight": (
            "the empty suitcase weighed almost nothing and was so light that a child could lift it .",
            "a feather is soft , and it is light enough to float in the air .",
            "carbon is used where the frame has to be strong and light at once , as in racing bicycles .",
            "she carried the basket without effort , for it was small and light to carry .",
        ),
    },
}
"""By word and sense, sentences with space-separated words; each contains the word once."""
